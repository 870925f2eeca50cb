"""What the agents of Sorter see."""

from dataclasses import dataclass

import numpy as np
from mlagents_envs.base_env import DimensionProperty, ObservationSpec, ObservationType
from numpy.typing import NDArray

Indices = NDArray[np.intp]
Array = NDArray[np.float64]
Floats = NDArray[np.float32]

HIGHEST = 20
"""Tiles bear numbers from 1 to this one."""
ROW = HIGHEST + 3
"""Numbers that tell of one tile."""
FRAMES = 2
PLACE = 4
"""Numbers that tell where an agent is and looks, in each frame."""

_X, _Z, _VISITED = HIGHEST, HIGHEST + 1, HIGHEST + 2
_SCALE = 20.0
"""Places are observed in units of this many metres."""


@dataclass(frozen=True, slots=True)
class View:
    """Some rooms [k], each with an agent, at a moment."""

    position: Array
    """[2, k], x and z."""
    velocity: Array
    """[2, k]."""
    heading: Array
    """[k], radians from z towards x."""
    numbers: Indices
    """[k, 20], of the tiles, ascending; 0 for no tile."""
    tiles: Array
    """[2, k, 20], where they are."""
    visited: Indices
    """[k], how many of them were visited: the first so many."""


def observation_specs(flat: bool) -> list[ObservationSpec]:
    """Tiles, own motion, place. `flat`: the tiles as one vector and not as entities."""
    tiles = _vector("BufferSensor", HIGHEST * ROW)
    if not flat:
        any_number = (DimensionProperty.VARIABLE_SIZE, DimensionProperty.NONE)
        tiles = ObservationSpec((HIGHEST, ROW), any_number, ObservationType.DEFAULT, "BufferSensor")
    place = f"StackingSensor_size{FRAMES}_VectorSensor_size{PLACE}"
    return [tiles, _vector("PhysicsBodySensor:Agent", 10), _vector(place, PLACE * FRAMES)]


def tile_rows(view: View) -> Floats:
    """A row for each tile, in ascending order of their numbers, then zeros: [k, 20, 23].

    A 1 at the tile's number, its way from the agent along x and z, and whether it was visited. The mark of
    tile 20 is lost: the way takes its place, as in the original.
    """
    rows = np.zeros((*view.numbers.shape, ROW), np.float32)
    room, tile = np.nonzero(view.numbers)
    rows[room, tile, view.numbers[room, tile]] = 1
    away = (view.tiles[:, room, tile] - view.position[:, room]) / _SCALE
    rows[room, tile, _X], rows[room, tile, _Z] = away
    rows[room, tile, _VISITED] = tile < view.visited[room]
    return rows


def own_body(view: View) -> Floats:
    """Unity's rigid-body sensor as it is set up here: [k, 10].

    It tells a body's pose and velocity as seen from that body itself: no offset (3), no turn (4), and the
    velocity to the right, up, and ahead. Unity's own brain for this scene fits nothing else.
    """
    obs = np.zeros((len(view.heading), 10), np.float32)
    obs[:, 6] = 1
    sine, cosine = np.sin(view.heading), np.cos(view.heading)
    x, z = view.velocity
    obs[:, 7], obs[:, 9] = x * cosine - z * sine, x * sine + z * cosine
    return obs


def own_place(view: View) -> Floats:
    """Where an agent is, and the direction in which it looks: [k, 4]."""
    x, z = view.position / _SCALE
    return np.stack([x, z, np.sin(view.heading), np.cos(view.heading)], axis=1).astype(np.float32)


def _vector(name: str, size: int) -> ObservationSpec:
    return ObservationSpec((size,), (DimensionProperty.NONE,), ObservationType.DEFAULT, name)
