"""The field of FoodCollector: agents that glide, collide and shoot among food that lies about.

Arrays have the areas first. Positions are [2, areas, ...], x and z; headings turn from z to x.
"""

import numpy as np

from ...physics2d import FRICTION, GRAVITY, TIME_STEP, Array, Flags, Indices

AGENT_HALF = 0.5
FOOD_RADIUS = 0.75
LASER_LENGTH = 25.0

_LASER_RADIUS = 2.0
_DRAG = 0.5
_TOUCH = 0.02
"""Meters: colliders' contact offsets."""
_FAST, _SLOWING = 5.0, 0.95
"""Above so many meters per second, velocities are multiplied by this in each physics step."""
_TINY = 1e-9


class FoodDynamics:
    """A level, walled field in each area, with m agents and f foods."""

    def __init__(self, areas: int, agents: int, foods: int, half: float) -> None:
        """`half`: half the edge of the field."""
        self.half = half
        self.position: Array = np.zeros((2, areas, agents))
        self.velocity: Array = np.zeros((2, areas, agents))
        self.radius: Array = np.full((areas, agents), AGENT_HALF)
        """[areas, agents]; the original's agents are boxes that never turn over."""
        self.food: Array = np.zeros((2, areas, foods))
        first, second = np.triu_indices(agents, 1)
        self._first, self._second = first, second

    def step(self, push: Array) -> None:
        """One physics step. `push`: [2, areas, m], what is added to the velocities."""
        velocity = self.velocity
        velocity *= np.where(np.hypot(*velocity) > _FAST, _SLOWING, 1.0)
        velocity += push
        velocity *= 1 - _DRAG * TIME_STEP
        grip = FRICTION * GRAVITY * TIME_STEP
        velocity *= 1 - grip / np.maximum(np.hypot(*velocity), grip + _TINY)
        self.position += velocity * TIME_STEP
        if len(self._first):
            self._collide()
        limit = self.half - self.radius
        inside = np.clip(self.position, -limit, limit)
        velocity *= inside == self.position
        self.position[:] = inside

    def touched(self) -> tuple[Indices, Indices, Indices]:
        """The areas, agents and foods [k] of all touches; each food once, for the nearest agent."""
        distance = np.hypot(*(self.position[..., None] - self.food[:, :, None])) - self.radius[..., None]
        nearest = distance.argmin(axis=1)
        reached = distance.min(axis=1) < FOOD_RADIUS + _TOUCH
        areas, foods = np.nonzero(reached)
        return areas, nearest[areas, foods], foods

    def hit(self, shooting: Flags, heading: Array) -> Flags:
        """[areas, m], which agents are the first body that a shot hits; food stops shots.

        Args:
            shooting, heading: [areas, m].
        """
        areas, shooters = np.nonzero(shooting)
        agents = self.radius.shape[1]
        met = np.zeros(shooting.shape, np.bool_)
        if not len(areas):
            return met
        things = np.concatenate([self.position[:, areas], self.food[:, areas]], axis=2)
        away = things - self.position[:, areas, shooters, None]
        reach = np.full(away.shape[1:], FOOD_RADIUS + _LASER_RADIUS)
        reach[:, :agents] = self.radius[areas] + _LASER_RADIUS
        angle = heading[areas, shooters, None]
        along = away[0] * np.sin(angle) + away[1] * np.cos(angle)
        square = reach**2 - ((away**2).sum(axis=0) - along**2)
        way = along - np.sqrt(np.maximum(square, 0))
        # What the thrown sphere is in already when it starts does not count, as in the original.
        way[(square <= 0) | (way <= 0) | (way > LASER_LENGTH)] = np.inf
        first = way.argmin(axis=1)
        (hits,) = np.nonzero(np.isfinite(way.min(axis=1)) & (first < agents))
        met[areas[hits], first[hits]] = True
        return met

    def _collide(self) -> None:
        """Agents that touch move apart, and do not go on into each other."""
        first, second = self._first, self._second
        apart = self.position[:, :, first] - self.position[:, :, second]
        distance = np.hypot(*apart)
        depth = self.radius[:, first] + self.radius[:, second] - distance
        areas, pair = np.nonzero(depth > 0)
        if not len(areas):
            return
        one, other = first[pair], second[pair]
        # Two in the very same place part along x.
        normal = apart[:, areas, pair] / np.maximum(distance[areas, pair], _TINY)
        normal[0, distance[areas, pair] < _TINY] = 1
        shift = normal * depth[areas, pair] / 2
        approach = ((self.velocity[:, areas, one] - self.velocity[:, areas, other]) * normal).sum(axis=0)
        change = normal * np.maximum(-approach, 0) / 2
        for axis in (0, 1):
            np.add.at(self.position[axis], (areas, one), shift[axis])
            np.add.at(self.position[axis], (areas, other), -shift[axis])
            np.add.at(self.velocity[axis], (areas, one), change[axis])
            np.add.at(self.velocity[axis], (areas, other), -change[axis])
