"""What can go wrong between the name of an environment and its program."""

from collections.abc import Iterable
from difflib import get_close_matches

from mlagents_envs.exception import UnityEnvironmentException


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
