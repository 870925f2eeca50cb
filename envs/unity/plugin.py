"""The plug-ins by which games speak the communicator protocol, and how these games are started: Unity's,
com.unity.ml-agents, and Unreal's, UnrealMLAgents.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..engines import terms
from ..engines.interfaces import EngineKind
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
    protocol: str
    """The protocol's name."""
    arguments: Arguments
    suffixes: tuple[str, ...]
    """The suffixes that executables have on Linux, besides none."""


_UNREAL_LOG = "-abslog="
_OUTPUTS = (
    "-",
    *(f"/dev/{name}" for name in ("stdout", "stderr", "fd/1", "fd/2")),
    *(f"/proc/self/fd/{number}" for number in (1, 2)),
)
"""How Unity's users name an engine's output where a log is to be named."""


def _log_at(value: str) -> Path | None:
    """The log that an argument names; None for the engine's output, which is heard in any case.

    `/dev/stdout` is this process's own output, where this process opens it.
    """
    return None if value in _OUTPUTS else Path(value)


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
        log_file = _log_at(given[0])
    elif log_file is not None:
        log_file = log_file.absolute()
        command.append(f"{_UNREAL_LOG}{log_file}")
    return command, log_file


UNREAL_PLUGIN = Plugin(
    kind=EngineKind(terms.UNREAL, encode_quit()),
    dialect=UNREAL,
    protocol="UnrealMLAgents' protocol",
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
        log_file = _log_at(value[0]) if value else None
    elif log_file is not None:
        command += ["-logFile", str(log_file)]
    return command + additional, log_file


UNITY_PLUGIN = Plugin(
    kind=EngineKind(terms.UNITY, encode_quit()),
    dialect=UNITY,
    protocol="ML-Agents' protocol",
    arguments=unity_arguments,
    suffixes=(".x86_64", ".x86"),
)
