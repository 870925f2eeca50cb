"""What a new start of an environment does not mend."""

from mlagents_envs.exception import UnityException


class GameFaultError(UnityException):  # type: ignore[misc]
    """A game in Python breaks the rules of its interface, and would break them again: it is not restarted."""


class UnsupportedSpaceError(GameFaultError):
    """A space that has no counterpart in ML-Agents' specifications."""
