"""How games with UnrealMLAgents are started, and what to say about those that do not answer."""

from collections.abc import Sequence
from pathlib import Path

from ..engines.connection import EngineKind
from ..engines.plugin import Plugin
from ..protocol.encoder import encode_quit
from .dialect import UNREAL

_LOG = "-abslog="


def unreal_arguments(
    port: int, windowless: bool, log_file: Path | None, additional: Sequence[str]
) -> tuple[list[str], Path | None]:
    """The arguments that a game gets, and the log file it will write, if we know; see `plugin.Arguments`.

    The user's come first: Unreal takes a map only from the first argument, and of several values the first.
    """
    command = [str(argument) for argument in additional]
    given = [argument[len(_LOG) :] for argument in command if argument.lower().startswith(_LOG)]
    if windowless:
        command.append("-nullrhi")
    # Upstream's trainer passes the first form, and release 1.0 of the plug-in reads only the second.
    command += ["-mlAgentPort", str(port), f"-mlAgentPort={port}"]
    if given:
        log_file = Path(given[0])
    elif log_file is not None:
        log_file = log_file.absolute()
        command.append(f"{_LOG}{log_file}")
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
"""Of `--env unreal:...`."""
