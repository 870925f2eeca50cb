"""Unity's plug-in, com.unity.ml-agents, and how its players are started."""

from collections.abc import Sequence
from pathlib import Path

from ..engines.connection import EngineKind
from ..engines.plugin import Plugin
from ..protocol.dialect import UNITY
from ..protocol.encoder import encode_quit


def unity_arguments(
    port: int, windowless: bool, log_file: Path | None, additional: Sequence[str]
) -> tuple[list[str], Path | None]:
    """The arguments that a Unity executable gets, and the log file it will write, if we know.

    A `-logFile` among the additional arguments wins over `log_file`.
    """
    additional = [str(argument) for argument in additional]
    command = ["-nographics", "-batchmode"] if windowless else []
    command += ["--mlagents-port", str(port)]
    given = [index for index, argument in enumerate(additional) if argument.lower() == "-logfile"]
    if given:
        value = additional[given[-1] + 1 : given[-1] + 2]
        # "-" means the standard output, whose end is kept in any case.
        log_file = Path(value[0]) if value and value[0] != "-" else None
    elif log_file is not None:
        command += ["-logFile", str(log_file)]
    return command + additional, log_file


UNITY_PLUGIN = Plugin(
    kind=EngineKind(
        name="Unity",
        quit=encode_quit(),
        never_called="It has not called yet: it did not start, or it has no ML-Agents communicator.",
        checklist="""\
\t The environment does not need user interaction to launch
\t The Agents' Behavior Parameters > Behavior Type is set to "Default"
\t The environment and the Python interface have compatible versions.""",
        displays=(
            "\t If you're running on a headless server without graphics support, turn off display by either "
            "passing --no-graphics option or build your Unity executable as server build."
        ),
    ),
    dialect=UNITY,
    idle=(
        "It connected, but no agent has asked for a decision: the scene needs an active agent, and each "
        "agent a Decision Requester component or code that calls RequestDecision. An exception in "
        "CollectObservations also keeps agents silent; the log or the console says so."
    ),
    releases="Use a com.unity.ml-agents package that speaks 1.x of the API, such as 2.x, 3.x or 4.x.",
    arguments=unity_arguments,
    suffixes=(".x86_64", ".x86"),
)
