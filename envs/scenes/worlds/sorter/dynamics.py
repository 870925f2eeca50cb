"""The round room of Sorter: agents that glide on its floor, and the tiles that stand along its wall."""

import numpy as np

from ...physics2d import FRICTION, GRAVITY, TIME_STEP, Array, Indices

AGENT_HALF = 0.5
"""The original's agent is a box of 1 m; here it is round, so that its heading does not matter to a touch."""
AGENT_DRAG = 4.0
GRAVITY_SCALE = 2.5
TILE_DEPTH = 1.52
WALL_INSIDE = 0.5
"""The wall's inner face is nearer to the center than the tiles' by this; the original's mesh is not known."""

_TOUCH = 0.02
"""Meters: colliders' contact offsets."""
_TINY = 1e-9


class SorterDynamics:
    """One agent in each of n rooms. Positions are [2, n], x and z; angles turn from z to x."""

    def __init__(self, rooms: int, radius: float, tile_width: float, places: int) -> None:
        """`radius`: of the circle on which the tiles' centers are. `places`: for tiles along it."""
        self.position: Array = np.zeros((2, rooms))
        self.velocity: Array = np.zeros((2, rooms))
        self.gravity = GRAVITY * GRAVITY_SCALE
        self.tile_angle: Array = np.arange(places) * 2 * np.pi / places
        """[places], of each place for a tile."""
        self._radius, self._half_width = radius, tile_width / 2
        self._limit = radius - WALL_INSIDE - AGENT_HALF
        self._near = radius - TILE_DEPTH / 2 - 2 * AGENT_HALF

    def tiles(self) -> Array:
        """The centers of all places, [2, places]."""
        return self._radius * np.stack([np.sin(self.tile_angle), np.cos(self.tile_angle)])

    def stop(self, which: Indices) -> None:
        """Back to the center, at rest."""
        self.position[:, which] = 0
        self.velocity[:, which] = 0

    def step(self, push: Array, places: Indices) -> tuple[Indices, Indices]:
        """One physics step.

        Args:
            push: [2, n], what is added to the velocities.
            places: [n, t], where the rooms' tiles stand; -1 for no tile.

        Returns:
            Which rooms' agents touch a tile, and which of the t tiles: [k] each, one for each agent.
        """
        velocity = self.velocity
        velocity += push
        velocity *= 1 - AGENT_DRAG * TIME_STEP
        grip = FRICTION * self.gravity * TIME_STEP
        velocity *= 1 - grip / np.maximum(np.hypot(*velocity), grip + _TINY)
        self.position += velocity * TIME_STEP
        (rooms,) = np.nonzero(np.hypot(*self.position) > self._near)
        if not len(rooms):
            return rooms, rooms
        touched, tiles = self._meet_tiles(rooms, places[rooms])
        self._meet_wall(rooms)
        return touched, tiles

    def _meet_tiles(self, rooms: Indices, places: Indices) -> tuple[Indices, Indices]:
        sine, cosine = np.sin(self.tile_angle)[places], np.cos(self.tile_angle)[places]
        x, z = self.position[:, rooms, None]
        # In each tile's own axes: along the wall, and away from the room's center.
        along = x * cosine - z * sine
        out = x * sine + z * cosine - self._radius
        gap_along = along - np.clip(along, -self._half_width, self._half_width)
        gap_out = out - np.clip(out, -TILE_DEPTH / 2, TILE_DEPTH / 2)
        distance = np.where(places < 0, np.inf, np.hypot(gap_along, gap_out))
        rows = np.arange(len(rooms))
        nearest = distance.argmin(axis=1)
        (hit,) = np.nonzero(distance[rows, nearest] < AGENT_HALF + _TOUCH)
        tile = nearest[hit]
        apart = distance[hit, tile]
        gap_along, gap_out = gap_along[hit, tile], gap_out[hit, tile]
        # Deep inside, the way out is towards the center of the room.
        inside = apart < _TINY
        gap_out = np.where(inside, -1, gap_out) / np.where(inside, 1, apart)
        gap_along = np.where(inside, 0, gap_along) / np.where(inside, 1, apart)
        sine, cosine = sine[hit, tile], cosine[hit, tile]
        normal = np.stack([gap_along * cosine + gap_out * sine, gap_out * cosine - gap_along * sine])
        self._bounce(rooms[hit], normal, AGENT_HALF - apart)
        return rooms[hit], tile

    def _meet_wall(self, rooms: Indices) -> None:
        distance = np.hypot(*self.position[:, rooms])
        (hit,) = np.nonzero(distance > self._limit)
        normal = -self.position[:, rooms[hit]] / distance[hit]
        self._bounce(rooms[hit], normal, distance[hit] - self._limit)

    def _bounce(self, rooms: Indices, normal: Array, depth: Array) -> None:
        """Agents that are `depth` in something leave it along `normal`, and rub against it."""
        self.position[:, rooms] += normal * np.maximum(depth, 0)
        velocity = self.velocity[:, rooms]
        towards = np.minimum((velocity * normal).sum(axis=0), 0)
        velocity -= normal * towards
        speed = np.hypot(*velocity)
        velocity *= 1 - np.minimum(-FRICTION * towards, speed) / np.maximum(speed, _TINY)
        self.velocity[:, rooms] = velocity
