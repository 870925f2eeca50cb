"""The plug-ins by which games speak the communicator protocol: Unity's own, and those made after it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..protocol.dialect import Dialect
from .connection import EngineKind


class Arguments(Protocol):
    """Makes the arguments that a game gets."""

    def __call__(
        self, port: int, windowless: bool, log_file: Path | None, additional: Sequence[str]
    ) -> tuple[list[str], Path | None]:
        """The arguments, and the log file that the game will write, if we know.

        Args:
            port: Where the game calls.
            windowless: Launch it without a window.
            log_file: Where it is to write its log, unless `additional` says otherwise.
            additional: The user's.
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
