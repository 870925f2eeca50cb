"""The brains that a network leaves behind."""

from __future__ import annotations

from ..networks.actor import Actor
from ..networks.actor_critic import ActorCritic
from .actors import Actors

Network = Actor | ActorCritic | Actors


def brains_of(network: Network) -> dict[str, Actor | ActorCritic]:
    """What is exported of a network, by what is added to the file's name.

    An engine feeds a brain with observations alone. So of actors that differ from place to place each becomes
    a brain, which knows its place by itself: -place0, -place1, ...
    """
    if not isinstance(network, Actors):
        return {"": network}
    return {suffix: network.alone(place) for place, suffix in enumerate(suffixes_of(network))}


def suffixes_of(network: Network) -> tuple[str, ...]:
    """The keys of `brains_of`."""
    if not isinstance(network, Actors):
        return ("",)
    return tuple(f"-place{place}" for place in range(network.place_count))
