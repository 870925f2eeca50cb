"""The sensors of FoodCollector."""

from dataclasses import dataclass

import numpy as np
from mlagents_envs.base_env import ObservationSpec

from ...physics2d import Array, Flags, Floats
from ...sensors import GridSensor, image_spec, others, own_motion, seen_from, vector_spec
from .dynamics import FOOD_RADIUS

TAGS = ("food", "agent", "wall", "badFood", "frozenAgent")
CELLS = 40
"""Along each edge of the grid, of 1 m."""
NEAREST = 3
"""Foods of either kind in the vector observation."""

_FOOD, _AGENT, _WALL, _BAD, _FROZEN = range(5)
_WALL_THICKNESS = 1.0
_PLACES = 7 + 4 * NEAREST + 3


@dataclass(frozen=True, slots=True)
class FoodView:
    """All areas [k] of m agents and f foods at a moment; positions are [2, k, ...]."""

    position: Array
    velocity: Array
    heading: Array
    """[k, m]."""
    radius: Array
    """[k, m]."""
    frozen: Flags
    """[k, m]."""
    food: Array
    """[2, k, f], the good before the bad."""


class FoodSensors:
    """The sensors, set up with what is the same in every area and episode."""

    def __init__(self, agents: int, good: int, bad: int, half: float) -> None:
        """`good`, `bad`: foods of an area. `half`: half the edge of the field."""
        self._agents, self._good, self._half = agents, good, half
        self._others = others(agents)
        self._grid = GridSensor(CELLS, ahead=0.0)
        self._tags = np.array([_AGENT] * agents + [_FROZEN] * agents + [_FOOD] * good + [_BAD] * bad)

    def specs(self, senses: str) -> list[ObservationSpec]:
        """A grid, or one vector of the places of what is near."""
        if senses == "vector":
            return [vector_spec(_PLACES)]
        return [image_spec((len(TAGS), CELLS, CELLS), "GridSensor")]

    def observe(self, view: FoodView, senses: str) -> Floats:
        """What every agent sees: [k, m, ...]."""
        return self.places(view) if senses == "vector" else self.grid(view)

    def grid(self, view: FoodView) -> Floats:
        """[k, m, 5, 40, 40] of 0 and 1: the agent in the center, the first row farthest ahead."""
        areas, agents = view.heading.shape
        squares = np.zeros((4, areas, len(self._tags)))
        for start in (0, agents):
            squares[:2, :, start : start + agents] = view.position
            squares[2, :, start : start + agents] = -view.heading
            squares[3, :, start : start + agents] = view.radius
        squares[:2, :, 2 * agents :], squares[3, :, 2 * agents :] = view.food, FOOD_RADIUS
        present = np.ones((areas, agents, len(self._tags)), np.bool_)
        mates = ~np.eye(agents, dtype=np.bool_)
        present[:, :, :agents] = mates & ~view.frozen[:, None]
        present[:, :, agents : 2 * agents] = mates & view.frozen[:, None]
        channels = np.zeros((areas, agents, len(TAGS), CELLS, CELLS), np.float32)
        x, z = self._grid.middles(view.position, view.heading)
        out = np.maximum(np.abs(x), np.abs(z)) - self._half
        channels[:, :, _WALL] = (out > -0.5) & (out < _WALL_THICKNESS + 0.5)
        self._grid.paint(channels, view.position, view.heading, squares, present, self._tags)
        return channels

    def places(self, view: FoodView) -> Floats:
        """What is near, from each agent's own eyes: [k, m, 22].

        Place (2), heading (sine, cosine), velocity to the right and ahead / 4 (2), frozen (1); right and
        ahead of the nearest three foods (6) and bad foods (6); right and ahead of the nearest teammate and
        whether it is frozen (3). Ways are shares of half the field; what there is not is 0.
        """
        obs = np.zeros((*view.heading.shape, _PLACES), np.float32)
        obs[..., :6] = own_motion(view.position / self._half, view.heading, view.velocity)
        obs[..., 6] = view.frozen
        food = seen_from(view.position, view.heading, view.food) / self._half
        for start, kind in ((7, food[..., : self._good]), (7 + 2 * NEAREST, food[..., self._good :])):
            order = np.hypot(*kind).argsort(axis=2)[..., :NEAREST]
            near = np.take_along_axis(kind, order[None], axis=3)
            end = start + 2 * order.shape[2]
            obs[..., start:end:2], obs[..., start + 1 : end : 2] = near
        if self._agents > 1:
            mates = seen_from(view.position, view.heading, view.position) / self._half
            mates = mates[:, :, np.arange(self._agents)[:, None], self._others]
            nearest = np.hypot(*mates).argmin(axis=2)[..., None]
            obs[..., -3:-1] = np.moveaxis(np.take_along_axis(mates, nearest[None], axis=3)[..., 0], 0, -1)
            frozen = view.frozen[:, self._others]
            obs[..., -1] = np.take_along_axis(frozen, nearest, axis=2)[..., 0]
        return obs
