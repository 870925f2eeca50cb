"""The hall of Unity's Hallway, and how boxes move in it: one to each area, all areas at once.

A box walks on level ground between walls and a board that stands upright. It turns only as its actions turn
it. Positions and velocities are [2, areas], x (to the right) and z (along the hall) from the hall's center.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...physics2d import FRICTION, GRAVITY, TIME_STEP, Array, Indices

SCENE_GRAVITY = 2 * GRAVITY
"""Downward, m/s2; all that it does is to press the agents on the ground."""
HALF_BOX = 0.5
"""Meters, half the edge of an agent."""
BOARD_HALF_DEPTH = 0.5
"""Of the board with the symbol."""

_TURN = 3.0
"""Degrees in a physics step."""
_DRAG = 2.0
_FRICTION = 2 * FRICTION
"""Where faces or edges touch, PhysX has two anchor points, and each of them, as Unity sets it, holds with the
full friction."""
_GAP = 0.005
"""The gap between a box and what stops it, meters, so that no ray starts inside an obstacle."""
_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Hall:
    """Where everything is, in the proportions of the original's hall of 20 x 50 m."""

    width: float
    length: float
    """With the walls, meters."""

    @property
    def half_width(self) -> float:
        """To the inner side of a long wall."""
        return self.width / 2 - 0.5

    @property
    def half_length(self) -> float:
        """To the inner side of a short wall."""
        return self.length / 2 - 0.25

    @property
    def spread(self) -> float:
        """Agents and the board with the O are within this of the center, sideways."""
        return 0.15 * self.width

    @property
    def far(self) -> float:
        """The board is within this of the hall's center, and the agent of its own, along the hall."""
        return 0.1 * self.length

    @property
    def start(self) -> float:
        """The z around which agents start."""
        return -0.3 * self.length

    @property
    def board_half(self) -> float:
        """Half the width of the board with the symbol."""
        return 0.1 * self.width

    @property
    def goal_half(self) -> float:
        """Half the edge of a goal."""
        return 0.1 * self.width

    @property
    def goal(self) -> tuple[float, float]:
        """The center of the goal on the right; the other one is on the left of it."""
        return 0.35 * self.width, self.half_length - 0.46 - self.goal_half


class HallwayDynamics:
    """The boxes."""

    def __init__(self, areas: int, hall: Hall, speed: float) -> None:
        """`speed`: meters per second that an action adds in a physics step."""
        self.gravity = SCENE_GRAVITY
        self.position: Array = np.zeros((2, areas))
        self.velocity: Array = np.zeros((2, areas))
        self.heading: Array = np.zeros(areas)
        """Radians from z towards x."""
        self.board: Array = np.zeros((2, areas))
        """The centers of the boards."""
        self.extent: Array = np.full(areas, HALF_BOX)
        """[areas], how far each box reaches from its center along x and z."""
        self._middle_to_wall = np.array([[hall.half_width], [hall.half_length]]) - _GAP
        self._middle_to_board = np.array([[hall.board_half], [BOARD_HALF_DEPTH]]) + _GAP
        self._forward = speed * np.array([0.0, 1, -1, 0, 0])
        self._turn = np.radians(_TURN) * np.array([0.0, 0, 0, 1, -1])
        self._action = np.zeros(areas, np.intp)

    def command(self, chosen: NDArray[np.int32]) -> None:
        """Do these actions [areas] until the next ones."""
        self._action[:] = chosen

    def put(self, which: Indices, position: Array, heading: Array, board: Array) -> None:
        """Place agents and boards [2, k] of some areas; the agents rest until their next action."""
        self.position[:, which], self.heading[which], self.board[:, which] = position, heading, board
        self.velocity[:, which] = 0
        self._action[which] = 0

    def step(self) -> None:
        """One physics step."""
        self.heading += self._turn[self._action]
        sine, cosine = np.sin(self.heading), np.cos(self.heading)
        self.extent = HALF_BOX * (np.abs(sine) + np.abs(cosine))
        push, velocity = self._forward[self._action], self.velocity
        velocity[0] += push * sine
        velocity[1] += push * cosine
        velocity *= 1 - _DRAG * TIME_STEP
        grip = _FRICTION * self.gravity * TIME_STEP
        speed = np.maximum(np.hypot(velocity[0], velocity[1]), grip + _TINY)
        velocity *= 1 - grip / speed
        before = self.position.copy()
        self.position += velocity * TIME_STEP
        self._stop_at_board(before)
        self._stop_at_walls()

    def _stop_at_walls(self) -> None:
        limit = self._middle_to_wall - self.extent
        inside = np.minimum(np.maximum(self.position, -limit), limit)
        hits = self.position != inside
        if hits.any():
            self._stop(hits)
            self.position[:] = inside

    def _stop_at_board(self, before: Array) -> None:
        """Stop agents that would be within the board at the side from which they came."""
        half = self._middle_to_board + self.extent
        away = self.position - self.board
        closeness = np.abs(away) < half
        within = closeness[0] & closeness[1]
        if not within.any():
            return
        # An agent that was outside along an axis leaves along it; one that turned into it, the short way.
        outside = np.abs(before - self.board) - half
        sideways = outside[0] > outside[1]
        for axis, stopped in ((0, within & sideways), (1, within & ~sideways)):
            side = np.where(away[axis] < 0, -1, 1)
            self.position[axis] = np.where(stopped, self.board[axis] + side * half[axis], self.position[axis])
            hits = np.zeros_like(self.position, np.bool_)
            hits[axis] = stopped
            self._stop(hits)

    def _stop(self, hits: NDArray[np.bool_]) -> None:
        """Take the velocity [2, areas] along what is hit, and rub off some of that across it."""
        pressed = np.where(hits, self.velocity, 0)
        self.velocity[hits] = 0
        rubbed = _FRICTION * np.abs(pressed[::-1])
        self.velocity -= np.minimum(np.maximum(self.velocity, -rubbed), rubbed)
