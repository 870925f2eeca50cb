"""The sensors of Sorter."""

from dataclasses import dataclass

import numpy as np
from mlagents_envs.base_env import DimensionProperty, ObservationSpec, ObservationType

from ...physics2d import Array, Floats, Indices
from ...sensors import vector_spec

FRAMES = 2
PLACE = 4
"""Values per frame for an agent's position and heading."""

_WAY_AND_VISIT = 3
"""Numbers that follow a tile's marks in its row: the way to it along x and z, and whether it was visited."""
_SCALE = 20.0
"""Places are observed in units of this many meters."""


@dataclass(frozen=True, slots=True)
class SorterView:
    """Some rooms [k], each with an agent, at a moment."""

    position: Array
    """[2, k], x and z."""
    velocity: Array
    """[2, k]."""
    heading: Array
    """[k], radians from z towards x."""
    numbers: Indices
    """[k, n], of the tiles, ascending; 0 for no tile. The highest is n, 20 in the original."""
    tiles: Array
    """[2, k, n], where they are."""
    visited: Indices
    """[k], how many of them were visited: the first so many."""


def observation_specs(highest: int, flat: bool) -> list[ObservationSpec]:
    """Tiles, own motion, place. `highest`: tile's number. `flat`: tiles as one vector and not as entities."""
    row = highest + _WAY_AND_VISIT
    tiles = vector_spec(highest * row, "BufferSensor")
    if not flat:
        any_number = (DimensionProperty.VARIABLE_SIZE, DimensionProperty.NONE)
        tiles = ObservationSpec((highest, row), any_number, ObservationType.DEFAULT, "BufferSensor")
    place = f"StackingSensor_size{FRAMES}_VectorSensor_size{PLACE}"
    return [tiles, vector_spec(10, "PhysicsBodySensor:Agent"), vector_spec(PLACE * FRAMES, place)]


def tile_rows(view: SorterView) -> Floats:
    """A row for each tile, in ascending order of their numbers, then zeros: [k, n, n + 3].

    A 1 at the tile's number, its way from the agent along x and z, and whether it was visited. The mark of
    tile n is lost: the way takes its place, as in the original.
    """
    highest = view.numbers.shape[1]
    rows = np.zeros((*view.numbers.shape, highest + _WAY_AND_VISIT), np.float32)
    room, tile = np.nonzero(view.numbers)
    rows[room, tile, view.numbers[room, tile]] = 1
    away = (view.tiles[:, room, tile] - view.position[:, room]) / _SCALE
    rows[room, tile, highest], rows[room, tile, highest + 1] = away
    rows[room, tile, highest + 2] = tile < view.visited[room]
    return rows


def own_body(view: SorterView) -> Floats:
    """Unity's rigid-body sensor as it is set up here: [k, 10].

    It reports a body's pose and velocity in that body's own frame: no offset (3), no rotation (4), and the
    velocity to the right, up, and ahead. Unity's own brain for this scene fits nothing else.
    """
    obs = np.zeros((len(view.heading), 10), np.float32)
    obs[:, 6] = 1
    sine, cosine = np.sin(view.heading), np.cos(view.heading)
    x, z = view.velocity
    obs[:, 7], obs[:, 9] = x * cosine - z * sine, x * sine + z * cosine
    return obs


def own_place(view: SorterView) -> Floats:
    """Where an agent is, and the direction in which it looks: [k, 4]."""
    x, z = view.position / _SCALE
    return np.stack([x, z, np.sin(view.heading), np.cos(view.heading)], axis=1).astype(np.float32)
