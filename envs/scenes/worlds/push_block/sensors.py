"""The sensors of Cooperative PushBlock."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...physics2d import Array, Floats
from ...sensors import GridSensor, others, own_motion, rigid_body, seen_from
from .dynamics import AGENT

Pixels = NDArray[np.uint8]

TAGS = ("wall", "agent", "goal", "blockSmall", "blockLarge", "blockVeryLarge")
EDGES: Array = np.array([1.0, 2.0, 3.0])
"""Of small, large and very large blocks."""
WORTH: Array = np.array([1.0, 2.0, 3.0])
CELLS = 20
"""Along each edge of the grid, of 1 m."""

_WALL, _AGENT, _GOAL, _FIRST_BLOCK = range(4)
_WALL_THICKNESS = 1.0
_FULL = np.uint8(255)


@dataclass(frozen=True, slots=True)
class PushBlockView:
    """Some areas [k] of m agents and b blocks at a moment."""

    pose: Array
    """[3, k, m + b], x, z and angle, the agents first."""
    heading: Array
    """[k, m]."""
    velocity: Array
    """[2, k, m]."""
    present: NDArray[np.bool_]
    """[k, b], which blocks are still there."""


class PushBlockSensors:
    """The sensors, set up with what is the same in every area and episode."""

    def __init__(self, members: int, kinds: NDArray[np.intp], half: float, goal: float) -> None:
        """`kinds`: [b], of the blocks. `half`: half the edge of the ground. `goal`: the z of its edge."""
        self._members, self._half, self._goal = members, half, goal
        self._kinds, self._edges, self._worth = kinds, EDGES[kinds] / 2, WORTH[kinds] / WORTH.max()
        self._others = others(members)
        self._grid = GridSensor(CELLS, ahead=CELLS / 2)
        self._tags = np.concatenate([np.full(members, _AGENT), _FIRST_BLOCK + kinds])
        self.places_size = 7 + 2 * (members - 1) + 7 * len(kinds)

    def body(self, view: PushBlockView) -> Floats:
        """Every agent's own pose and velocity: [k, m, 10]."""
        return rigid_body(view.pose[:2, :, : self._members], view.heading, view.velocity)

    def grid(self, view: PushBlockView) -> Pixels:
        """[k, m, 6, 20, 20] of 0 and 255; the goal is not shown where something else is."""
        members, areas = self._members, len(view.heading)
        position = view.pose[:2, :, :members]
        squares = np.empty((4, *view.pose.shape[1:]))
        squares[:3] = view.pose
        squares[3, :, :members], squares[3, :, members:] = AGENT.half, self._edges
        seen = np.empty((areas, members, squares.shape[2]), np.bool_)
        seen[:, :, :members] = ~np.eye(members, dtype=np.bool_)
        seen[:, :, members:] = view.present[:, None]
        channels = np.zeros((areas, members, len(TAGS), CELLS, CELLS), np.uint8)
        x, z = self._grid.middles(position, view.heading)
        out = np.maximum(np.abs(x), np.abs(z)) - self._half
        wall = (out > -0.5) & (out < _WALL_THICKNESS + 0.5)
        channels[:, :, _WALL] = wall
        self._grid.paint(channels, position, view.heading, squares, seen, self._tags)
        free = (z > self._goal - 0.5) & (out <= 0.5)
        channels[:, :, _GOAL] = free & ~channels.any(axis=2)
        channels *= _FULL
        return channels

    def places(self, view: PushBlockView) -> Floats:
        """The positions of everything in each agent's own frame: [k, m, places_size].

        Position (2) and heading (sine, cosine); velocity to the right and ahead (2); the way to the goal
        (1); for each teammate right and ahead (2); for each block whether it is there, right, ahead, the way
        from it to the goal, its x, half its edge and its worth (7). Places are shares of half the ground.
        """
        members, half = self._members, self._half
        position = view.pose[:2, :, :members]
        seen = seen_from(position, view.heading, view.pose[:2]) / half
        obs = np.empty((*view.heading.shape, self.places_size), np.float32)
        obs[..., :6] = own_motion(position / half, view.heading, view.velocity)
        obs[..., 6] = (self._goal - position[1]) / half
        first = 7 + 2 * (members - 1)
        if members > 1:
            near = seen[:, :, np.arange(members)[:, None], self._others]
            obs[..., 7:first:2], obs[..., 8:first:2] = near
        blocks = np.empty((*view.heading.shape, len(self._kinds), 7), np.float32)
        blocks[..., 0] = 1
        blocks[..., 1], blocks[..., 2] = seen[:, :, :, members:]
        blocks[..., 3] = (self._goal - view.pose[1, :, None, members:]) / half
        blocks[..., 4] = view.pose[0, :, None, members:] / half
        blocks[..., 5] = self._edges / half
        blocks[..., 6] = self._worth
        blocks *= view.present[:, None, :, None]
        obs[..., first:] = blocks.reshape(*view.heading.shape, -1)
        return obs
