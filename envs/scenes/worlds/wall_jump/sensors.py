"""The sensors of WallJump."""

from dataclasses import dataclass

import numpy as np
from mlagents_envs.base_env import ObservationSpec
from numpy.typing import NDArray

from ...physics2d import Array, Floats
from ...sensors import RaySensor, RayTargets, own_motion, seen_from, vector_spec
from .dynamics import BLOCK_HALF, BLOCK_HEIGHT, WALL_HALF

TAGS = ("wall", "goal", "block")
FRAMES = 6
PLACE = 4
"""Values per frame for an agent's position."""
GOAL_HEIGHT = 1.0
"""How high the goal reaches for rays; ours."""

_WALL, _GOAL, _BLOCK = range(3)
_LENGTH = 20.0
_RADIUS = 0.5
_RISE = (2.5, 5.0)
"""Heights above an agent's center at which the upper rays start and end, meters."""
_SCALE = 20.0
_PLACES = 16


@dataclass(frozen=True, slots=True)
class WallJumpView:
    """The state of some platforms [k]."""

    position: Array
    """[3, k], of the agents: x, y, z."""
    velocity: Array
    """[3, k]."""
    heading: Array
    """[k]."""
    block: Array
    """[2, k], x and z."""
    wall: Array
    """[k], meters above the platform; 0 for no wall."""
    near_ground: NDArray[np.bool_]
    """[k]."""


class WallJumpSensors:
    """The sensors, set up with what is the same in every area and episode."""

    def __init__(self, platform: float, middle: float, goal_middle: float, goal: float) -> None:
        """`platform`, `goal`: meters along each edge. `middle`, `goal_middle`: their z."""
        self._half, self._middle = platform / 2, middle
        self._goal_middle, self._goal = goal_middle, goal / 2
        self._rays = RaySensor(per_side=3, degrees=90, length=_LENGTH, tags=len(TAGS), radius=_RADIUS)
        self.sizes = (self._rays.size, self._rays.size, PLACE)
        """Of a frame of each sensor."""

    def specs(self, senses: str) -> list[ObservationSpec]:
        """Two ray sensors and the place, the last frames of each, or the places of everything."""
        if senses == "vector":
            return [vector_spec(_PLACES)]
        names = ("OffsetRayPerceptionSensor", "RayPerceptionSensor", f"VectorSensor_size{PLACE}")
        return [
            vector_spec(FRAMES * size, f"StackingSensor_size{FRAMES}_{name}")
            for name, size in zip(names, self.sizes)
        ]

    def observe(self, view: WallJumpView, senses: str) -> list[Floats]:
        """One frame of every sensor, [k, size] each."""
        if senses == "vector":
            return [self.places(view)]
        start, end = _RISE
        return [self._fan(view, start, (end - start) / _LENGTH), self._fan(view, 0.0, 0.0), self.place(view)]

    def place(self, view: WallJumpView) -> Floats:
        """Where an agent is from the platform's center, over 20 m; whether it is on the ground: [k, 4]."""
        obs = np.empty((len(view.heading), PLACE), np.float32)
        obs[:, :3] = view.position.T / _SCALE
        obs[:, 2] -= self._middle / _SCALE
        obs[:, 3] = view.near_ground
        return obs

    def places(self, view: WallJumpView) -> Floats:
        """The positions of everything in each agent's own frame: [k, 16].

        The place on the platform (2), heading (sine, cosine), velocity to the right and ahead / 4 (2), the
        height of the underside and the upward velocity / 10 (2), whether it is on the ground (1); the block
        to the right and ahead (2) and its place (2); the goal to the right and ahead (2); the wall's height
        over 4 m (1). Places are shares of half the platform.
        """
        obs = np.empty((len(view.heading), _PLACES), np.float32)
        heading = view.heading[:, None]
        position, velocity = view.position[::2, :, None], view.velocity[::2, :, None]
        centerd = position - np.array([0, self._middle])[:, None, None]
        obs[:, :6] = own_motion(centerd / self._half, heading, velocity)[:, 0]
        obs[:, 6], obs[:, 7] = view.position[1] - 0.5, view.velocity[1] / 10
        obs[:, 8] = view.near_ground
        goals = np.broadcast_to(np.array([0, self._goal_middle])[:, None], view.block.shape)
        seen = seen_from(position, heading, np.stack([view.block, goals], axis=2))[:, :, 0] / self._half
        obs[:, 9:11], obs[:, 13:15] = seen[..., 0].T, seen[..., 1].T
        obs[:, 11:13] = view.block.T / self._half
        obs[:, 15] = view.wall / 4
        return obs

    def _fan(self, view: WallJumpView, start: float, slope: float) -> Floats:
        """A fan of rays that start `start` meters above the agents and rise with `slope`: [k, size]."""
        count = len(view.heading)
        boxes = np.zeros((4, count, 3))
        boxes[2, :, _WALL], boxes[3, :, _WALL] = self._half, WALL_HALF
        boxes[1, :, _GOAL], boxes[2:, :, _GOAL] = self._goal_middle, self._goal
        boxes[:2, :, _BLOCK], boxes[2:, :, _BLOCK] = view.block, BLOCK_HALF
        tops = np.stack([view.wall, np.full(count, GOAL_HEIGHT), np.full(count, BLOCK_HEIGHT)], axis=1)
        above = tops + _RADIUS - (view.position[1] + start)[:, None]
        farthest = above / slope if slope else np.where(above > 0, np.inf, -np.inf)
        absent = np.zeros((count, 1, 3), np.bool_)
        absent[:, 0, _WALL] = view.wall <= 0
        around = RayTargets(
            half=np.inf,
            circles=np.zeros((3, count, 0)),
            circle_tags=np.zeros(0, np.intp),
            boxes=boxes,
            box_tags=np.array([_WALL, _GOAL, _BLOCK]),
            absent=absent,
            farthest=farthest[:, None],
        )
        return self._rays.observe(view.position[::2, :, None], view.heading[:, None], around)[:, 0]
