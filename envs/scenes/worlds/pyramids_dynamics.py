"""The rooms of Pyramids, and how an agent moves among what stands in them. All areas at once.

Lengths are meters; x points right, z up the ground, seen from above; headings turn from z to x. A box is
given by its center and half its edges along x and z; all of them lie along the axes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..parts.physics2d import GRAVITY, TIME_STEP, Array, Flags, Indices

RADIUS = 0.5
"""The radius of an agent, in meters; the original's box of 1 m has its corners cut off here."""

_TURN = np.radians([0, 0, 0, 4, -4])
_FORWARD = np.array([0, 1, -1, 0, 0])
_DRAG = 2.0
_FRICTION = 1.2
"""The friction of a sliding box, twice 0.6: it is held at two points. Recorded velocities of the original
agree."""
_WALL_FRICTION = 0.6
_SKIN = 5.0
"""Thickness of the outer walls; nothing is seen beyond them."""
_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Rooms:
    """A square of rooms with walls and doorways between them, the same in every area."""

    count: int
    """The number of rooms along each edge."""
    room: float
    """The meters along each edge of a room."""
    wall: float
    """The thickness of the walls between rooms."""
    door: float
    """The width of the doorways, each in the center of a wall."""

    @property
    def half(self) -> float:
        """Half the edge of all rooms together."""
        return (self.count * self.room + (self.count - 1) * self.wall) / 2

    @property
    def middles(self) -> Array:
        """The centers of all rooms [2, rooms]."""
        line = (np.arange(self.count) - (self.count - 1) / 2) * (self.room + self.wall)
        x, z = np.meshgrid(line, line)
        return np.stack([x.ravel(), z.ravel()])

    @property
    def walls(self) -> Array:
        """The walls, [4, w]: the four around everything first, then those between doorways."""
        half, skin = self.half, _SKIN / 2
        around = [
            (half + skin, 0, skin, half + 2 * skin),
            (-half - skin, 0, skin, half + 2 * skin),
            (0, half + skin, half + 2 * skin, skin),
            (0, -half - skin, half + 2 * skin, skin),
        ]
        step = self.room + self.wall
        lines = (np.arange(self.count - 1) - (self.count - 2) / 2) * step
        doors = (np.arange(self.count) - (self.count - 1) / 2) * step
        ends = np.concatenate(
            [[-half], np.stack([doors - self.door / 2, doors + self.door / 2], 1).ravel(), [half]]
        )
        pieces = [((low + high) / 2, (high - low) / 2) for low, high in ends.reshape(-1, 2) if high > low]
        upright = [(x, z, self.wall / 2, long) for x in lines for z, long in pieces]
        # Where walls cross, one of them would do; the second one changes nothing.
        level = [(x, z, long, self.wall / 2) for z in lines for x, long in pieces]
        return np.array([*around, *upright, *level]).T


class PyramidsDynamics:
    """One agent in each area: round, driven by its actions, stopped by boxes."""

    def __init__(self, areas: int, speed: float) -> None:
        """`speed`: meters per second that an action adds in each physics step."""
        self.position: Array = np.zeros((2, areas))
        self.velocity: Array = np.zeros((2, areas))
        self.heading: Array = np.zeros(areas)
        self._forward = speed * _FORWARD
        self._action: NDArray[np.int32] = np.zeros(areas, np.int32)

    def command(self, chosen: NDArray[np.int32]) -> None:
        """Do these actions [areas] until the next ones."""
        self._action[:] = chosen

    def put(self, which: Indices, position: Array, heading: Array) -> None:
        """Place the agents of some areas; they rest until their next action."""
        self.position[:, which], self.heading[which] = position, heading
        self.velocity[:, which] = 0
        self._action[which] = 0

    def step(self, boxes: Array, there: Flags) -> tuple[Indices, Indices, Array]:
        """Make one physics step.

        Args:
            boxes: [4, areas, n], what stands in the way.
            there: [areas, n], whether it does.

        Returns:
            Areas [c], boxes [c] and speeds [c] of the collisions, one box at a time; the
            speeds are those towards the box.
        """
        push, velocity = self._forward[self._action], self.velocity
        velocity[0] += push * np.sin(self.heading)
        velocity[1] += push * np.cos(self.heading)
        self.heading += _TURN[self._action]
        keep = 1 - _DRAG * TIME_STEP
        velocity *= keep
        grip = _FRICTION * GRAVITY * TIME_STEP * keep
        velocity *= 1 - grip / np.maximum(np.hypot(velocity[0], velocity[1]), grip + _TINY)
        self.position += velocity * TIME_STEP
        # In a corner there are two things to be stopped by.
        first, second = self._stop(boxes, there), self._stop(boxes, there)
        area, box, speed = (np.concatenate(pair) for pair in zip(first, second))
        return area, box, speed

    def reach(self, boxes: Array) -> Array:
        """The room between the agents and boxes [4, areas, n]: [areas, n], negative within."""
        away = np.abs(self.position[:, :, None] - boxes[:2]) - boxes[2:]
        np.maximum(away, 0, out=away)
        room: Array = np.hypot(away[0], away[1]) - RADIUS
        return room

    def _stop(self, boxes: Array, there: Flags) -> tuple[Indices, Indices, Array]:
        room = np.where(there, self.reach(boxes), np.inf)
        nearest = room.argmin(axis=1)
        (area,) = np.nonzero(room.min(axis=1) < 0)
        box = nearest[area]
        half = boxes[2:, area, box]
        away = self.position[:, area] - boxes[:2, area, box]
        normal = away - np.minimum(np.maximum(away, -half), half)
        distance = np.hypot(normal[0], normal[1])
        depth = RADIUS - distance
        (inside,) = np.nonzero(distance == 0)
        if len(inside):
            left = half[:, inside] - np.abs(away[:, inside])
            axis = left.argmin(axis=0)
            normal[axis, inside] = np.where(away[axis, inside] < 0, -1, 1)
            distance[inside] = 1
            depth[inside] = RADIUS + left.min(axis=0)
        normal /= distance
        self.position[:, area] += normal * depth
        velocity = self.velocity[:, area]
        speed = np.maximum(-(velocity * normal).sum(axis=0), 0)
        velocity += normal * speed
        along = np.hypot(velocity[0], velocity[1])
        velocity *= 1 - np.minimum(_WALL_FRICTION * speed / np.maximum(along, _TINY), 1)
        self.velocity[:, area] = velocity
        return area, box, speed
