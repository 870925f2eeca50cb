"""What the wire can complain about."""

from mlagents_envs.exception import UnityCommunicationException, UnityObservationException


class WireError(UnityCommunicationException):  # type: ignore[misc]
    """Bytes that are not what the protocol says. The message names where they came from and what is wrong."""


class ObservationError(WireError, UnityObservationException):  # type: ignore[misc]
    """An observation that does not fit its specification, or a picture that cannot be decoded."""


class PortInUseError(OSError):
    """Another process (or another trainer in this one) listens on the port."""


class TrainerGoneError(UnityCommunicationException):  # type: ignore[misc]
    """The trainer was not there in time, or went away while the engine waited for its answer."""
