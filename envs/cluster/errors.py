"""What goes wrong with a cluster."""

from mlagents_envs.exception import UnityException


class ClusterError(UnityException):  # type: ignore[misc]
    """The cluster cannot do what is asked of it; a new start of one environment would not mend that."""


class NoRoomError(ClusterError):
    """No node has taken an environment in time."""
