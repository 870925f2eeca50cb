"""The plug-ins by which games speak the communicator protocol, and how these games are started: Unity's,
com.unity.ml-agents, and Unreal's, UnrealMLAgents.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..engines.connection import EngineKind
from ..protocol.dialect import UNITY, UNREAL, Dialect
from ..protocol.encoder import encode_quit


class Arguments(Protocol):
    """Makes the arguments that a game gets."""

    def __call__(
        self, port: int, windowless: bool, log_file: Path | None, additional: Sequence[str]
    ) -> tuple[list[str], Path | None]:
        """The arguments, and the log file that the game will write, if we know.

        Args:
            port: The port on which the game calls.
            windowless: Whether to launch the game without a window.
            log_file: The file for the game's log, unless `additional` says otherwise.
            additional: The user's arguments.
        """


@dataclass(frozen=True, slots=True)
class Plugin:
    """What is particular to a plug-in and its engine."""

    kind: EngineKind
    dialect: Dialect
    idle: str
    """A sentence for a game that has connected and says no more: what may be missing."""
    releases: str
    """A sentence for a game of another version: which releases to use."""
    arguments: Arguments
    suffixes: tuple[str, ...]
    """The suffixes that executables have on Linux, besides none."""


_UNREAL_LOG = "-abslog="


def unreal_arguments(
    port: int, windowless: bool, log_file: Path | None, additional: Sequence[str]
) -> tuple[list[str], Path | None]:
    """The arguments that a game gets, and the log file it will write, if we know; see `Arguments`.

    The user's arguments come first: Unreal takes a map only from the first, and the first of several values.
    """
    command = [str(argument) for argument in additional]
    given = [argument[len(_UNREAL_LOG) :] for argument in command if argument.lower().startswith(_UNREAL_LOG)]
    if windowless:
        command.append("-nullrhi")
    # Upstream's trainer passes the first form, and release 1.0 of the plug-in reads only the second.
    command += ["-mlAgentPort", str(port), f"-mlAgentPort={port}"]
    if given:
        log_file = Path(given[0])
    elif log_file is not None:
        log_file = log_file.absolute()
        command.append(f"{_UNREAL_LOG}{log_file}")
    return command, log_file


UNREAL_PLUGIN = Plugin(
    kind=EngineKind(
        name="Unreal",
        quit=encode_quit(),
        never_called=(
            "It has not called yet: it did not start, or its level has no agent. The plug-in calls once, "
            "when the first agent begins to play; if no trainer listens then, it goes on without."
        ),
        checklist="""\
\t The environment does not need user interaction to launch
\t The level that it starts with has an actor with an Agent component
\t The agents' Behavior Parameters > Behavior Type is set to "Default"; it is "Heuristic Only" at first
\t The environment and the Python interface have compatible versions.""",
        displays=(
            "\t If you're running on a headless server without graphics support, turn off display by passing "
            "--no-graphics option."
        ),
    ),
    dialect=UNREAL,
    idle=(
        "It connected, but no agent has asked for a decision: the level needs an actor with an Agent, a "
        "Decision Requester, and Behavior Parameters whose Behavior Type is Default (it is Heuristic Only "
        "at first)."
    ),
    releases="Use a release of UnrealMLAgents that speaks 1.x of the API, such as 1.0.",
    arguments=unreal_arguments,
    suffixes=(".sh", ".x86_64", ".x86"),
)
"""The plug-in of `--env unreal:...`."""


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
        never_called=(
            "It has not called yet: it did not start, or its scene has no active agent (with the first one "
            "ML-Agents' Academy wakes), or it was built without ML-Agents or with a release before 0.15."
        ),
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
