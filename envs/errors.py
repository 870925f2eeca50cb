"""The errors of environments that more than one of the folders raises or catches."""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from mlagents_envs.exception import (
    UnityCommunicationException,
    UnityEnvironmentException,
    UnityException,
    UnityObservationException,
)


class EnvContractError(UnityException):  # type: ignore[misc]
    """An environment breaks its interface's contract, and would again: it is not restarted."""


class RefusedByAddonError(EnvContractError, UnityEnvironmentException):  # type: ignore[misc]
    """Lanista's addon has ended a game in which an agent does not give what it announced, or the like."""


class UnsupportedSpaceError(EnvContractError):
    """A space that has no counterpart in ML-Agents' specifications."""


_MAX_LENGTH = 2000


class WireError(UnityCommunicationException):  # type: ignore[misc]
    """Bytes that are not what the protocol says. The message names where they came from and what is wrong.

    A message that repeats a name of a million characters is shortened.
    """

    def __init__(self, message: str) -> None:
        if len(message) > _MAX_LENGTH:
            message = f"{message[: _MAX_LENGTH - 40]}... ({len(message):,} characters)"
        super().__init__(message)


class ObservationError(WireError, UnityObservationException):  # type: ignore[misc]
    """An observation that does not fit its specification, or a picture that cannot be decoded."""


class OtherEngineError(UnityEnvironmentException):  # type: ignore[misc]
    """A game of another engine calls than the one that was named."""

    def __init__(self, port: int, found: str, expected: str) -> None:
        """`found` and `expected`: the engines, `Unity` or `Unreal`."""
        remedy = {
            "Unity": "Name it without 'unreal:' (the Unity Editor by no --env at all).",
            "Unreal": "Name it --env unreal:PATH (its editor --env unreal:).",
        }
        super().__init__(
            f"The game that calls on port {port} is one of {found}, where one of {expected} was expected. "
            f"{remedy[found]}"
        )


class AddressInUseError(OSError):
    """Another process (or another trainer in this one) listens on the port."""


class TrainerGoneError(UnityCommunicationException):  # type: ignore[misc]
    """The trainer was not there in time, or went away while the engine waited for its answer."""


class RegistryError(UnityEnvironmentException):  # type: ignore[misc]
    """A manifest, a download or an archive cannot be used; the message says why and what to do."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class UnknownEntryError(RegistryError, KeyError):
    """There is no environment of this name."""

    def __init__(self, identifier: object, known: Iterable[str]) -> None:
        names = sorted(known)
        near = get_close_matches(str(identifier).lower(), {name.lower(): name for name in names}, n=1)
        close = [name for name in names if near and name.lower() == near[0]]
        hint = f" Did you mean {close[0]}?" if close else ""
        there = f" There are: {', '.join(names)}." if names else " It is empty."
        super().__init__(f"The entry {identifier} is not present in the registry.{hint}{there}")


class NoBuildError(RegistryError, FileNotFoundError):
    """The environment has no build for this platform."""


class UnsafeArchiveError(RegistryError):
    """A member of an archive would do harm, or is damaged; nothing was kept of it."""


class DemonstrationError(UnityException):  # type: ignore[misc]
    """A file that is no demonstration, or not all of one. The message names the file and the byte."""

    def __init__(self, path: Path, found: str, byte: int | None = None) -> None:
        """`byte`: where the file breaks, from 0; None where it is not about one place."""
        where = "" if byte is None else f" byte {byte}:"
        super().__init__(f"The demonstration {path}:{where} {found}")
        self.path = path
        self.byte = byte


class ClusterError(UnityException):  # type: ignore[misc]
    """The cluster cannot do what is asked of it; a new start of one environment would not mend that."""


class NoRoomError(ClusterError):
    """No node has taken an environment in time."""
