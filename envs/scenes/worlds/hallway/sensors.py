"""What the agents in the hall see: rays along the ground."""

import numpy as np
from numpy.typing import NDArray

from ...physics2d import Array, Floats, Indices
from ...sensors import RaySensor, RayTargets
from .dynamics import BOARD_HALF_DEPTH, Hall

TAGS = ("symbol_O_Goal", "symbol_X_Goal", "symbol_O", "symbol_X", "wall")
O_GOAL, X_GOAL, O_BOARD, X_BOARD, WALL = range(len(TAGS))

_DEGREES = 70.0
_RADIUS = 0.5
_PLATE_REACH = 0.218
"""How far the center of a sphere of 0.5 m on the ground is from a goal's plate, 5 cm high, as they touch."""
_SIGN_HALF = (1.02, 0.572)
"""Of the sign beyond a goal: half its width over half the goal's edge, and half its depth in meters."""
_SIGN_DISTANCE = 2.5
"""Meters from the goal's center, where the goal has 4 m along an edge."""
_THICK = 1.0


class HallwaySensors:
    """The rays of one agent in each area, and what they can meet there."""

    def __init__(self, areas: int, hall: Hall, per_side: int, length: float) -> None:
        """`per_side`: rays on either side of the central one; `length`: how far they reach."""
        self._rays = RaySensor(per_side, _DEGREES, length, len(TAGS), _RADIUS)
        self.size = self._rays.size
        self._goal_x, goal_z = hall.goal
        plate = hall.goal_half + _PLATE_REACH - _RADIUS
        sign = (_SIGN_HALF[0] * hall.goal_half, _SIGN_HALF[1])
        sign_z = goal_z + _SIGN_DISTANCE * hall.goal_half / 2
        width, depth = hall.half_width, hall.half_length
        board = (0, 0, hall.board_half, BOARD_HALF_DEPTH)
        things = [
            (O_GOAL, (0, goal_z, plate, plate)),
            (X_GOAL, (0, goal_z, plate, plate)),
            (O_GOAL, (0, sign_z, *sign)),
            (X_GOAL, (0, sign_z, *sign)),
            (O_BOARD, board),
            (X_BOARD, board),
            (WALL, (width + _THICK, 0, _THICK, depth + 2 * _THICK)),
            (WALL, (-width - _THICK, 0, _THICK, depth + 2 * _THICK)),
            (WALL, (0, depth + _THICK, width + 2 * _THICK, _THICK)),
            (WALL, (0, -depth - _THICK, width + 2 * _THICK, _THICK)),
        ]
        self._tags = np.array([tag for tag, _ in things])
        self._boxes = np.repeat(np.array([box for _, box in things]).T[:, None], areas, axis=1)
        self._absent = np.zeros((areas, 1, len(things)), np.bool_)

    def place(self, which: Indices, board: Array, is_x: NDArray[np.bool_], o_side: Array) -> None:
        """Start an episode in k areas.

        Args:
            which: [k], the areas.
            board: [2, k], the centers of the boards.
            is_x: [k], whether the board shows the X.
            o_side: [k], 1 where the O's goal is on the right, -1 where it is on the left.
        """
        self._boxes[0, which, 0] = self._boxes[0, which, 2] = o_side * self._goal_x
        self._boxes[0, which, 1] = self._boxes[0, which, 3] = -o_side * self._goal_x
        self._boxes[:2, which, 4] = self._boxes[:2, which, 5] = board
        self._absent[which, 0, 4], self._absent[which, 0, 5] = is_x, ~is_x

    def observe(self, which: Indices, position: Array, heading: Array) -> Floats:
        """What the agents of k areas, at positions [2, k] with headings [k], see: [k, 1, size]."""
        around = RayTargets(
            half=np.inf,
            circles=np.zeros((3, len(which), 0)),
            circle_tags=np.zeros(0, np.intp),
            boxes=self._boxes[:, which],
            box_tags=self._tags,
            absent=self._absent[which],
        )
        return self._rays.observe(position[..., None], heading[:, None], around)
