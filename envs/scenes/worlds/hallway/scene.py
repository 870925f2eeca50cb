"""Unity's Hallway: see a symbol, walk on until it is out of sight, and choose the goal that has the same one.

Rules and numbers are the official scene's. The rays are shorter than the way from the symbol to the goals, so
that who chooses must remember.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from mlagents_envs.base_env import (
    ActionSpec,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)
from numpy.typing import NDArray

from ....base import StatsAggregationMethod
from ...options import SceneSetting, choose
from ...sensors import Stack
from ...world import Actions, Batches, Ended, Parameters, Statistic, World, without_groups
from .dynamics import SCENE_GRAVITY, Hall, Walkers
from .sensors import HallSenses

BEHAVIOR = "Hallway?team=0"
DECISION_PERIOD = 6

_RIGHT_GOAL, _WRONG_GOAL = 1.0, -0.1
_TOUCH = 0.01
"""Metres: colliders' contact offset."""

Array = NDArray[np.float64]
Floats = NDArray[np.float32]
Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Setting(SceneSetting):
    """How large, how fast and how long everything is."""

    width: float
    length: float
    """Of the hall with its walls, metres; all else is in proportion."""
    speed: float
    """What an action adds to the velocity in a physics step, m/s."""
    rays: int
    """On either side of the middle one."""
    sight: float
    """How far rays reach, metres."""
    frames: int
    """How many decisions' observations are seen at once."""
    max_steps: int
    """Physics steps of an episode."""


SETTINGS = {
    "full": Setting(width=20.0, length=50.0, speed=1.5, rays=2, sight=12.0, frames=3, max_steps=3000),
    "small": Setting(width=6.0, length=17.0, speed=1.5, rays=2, sight=3.0, frames=1, max_steps=1800),
}


class Hallway(World):
    """Any number of halls, one agent to each. Options that are not given are as `size` says."""

    def __init__(
        self,
        areas: int = 16,
        size: str = "full",
        width: float = 0.0,
        length: float = 0.0,
        speed: float = 0.0,
        rays: int = 0,
        sight: float = 0.0,
        frames: int = 0,
        max_steps: int = 0,
    ) -> None:
        """What is left at its default is as `size` says.

        `areas`: how many halls there are.
        `size`: full is the original, small is for learning within minutes.
        `width`: of the hall, metres; board, goals and starting places are in proportion.
        `length`: of the hall, metres.
        `speed`: metres per second that an action adds in each physics step.
        `rays`: on either side of the middle one.
        `sight`: metres that rays reach.
        `frames`: how many decisions' observations an agent sees at once.
        `max_steps`: physics steps of an episode.
        """
        given = {
            "width": width,
            "length": length,
            "speed": speed,
            "rays": rays,
            "sight": sight,
            "frames": frames,
            "max_steps": max_steps,
        }
        self.setting = setting = choose("hallway", SETTINGS, size, areas, given)
        if setting.max_steps < DECISION_PERIOD:
            raise ValueError(
                f"hallway: max-steps is {setting.max_steps}; it must be at least {DECISION_PERIOD}, the "
                "physics steps of a decision."
            )
        self.areas = areas
        self.hall = Hall(setting.width, setting.length)
        if self.hall.half_width < self.hall.board_half + 1.5 or setting.length < setting.width:
            raise ValueError(
                f"hallway: in a hall of {setting.width:g} x {setting.length:g} m nobody gets past the board; "
                "it must be at least 5 m wide, and no wider than it is long."
            )
        self.walkers = Walkers(areas, self.hall, setting.speed)
        self.is_x: NDArray[np.bool_] = np.zeros(areas, np.bool_)
        """[areas], whether the board shows the X, and not the O."""
        self.o_side: Array = np.ones(areas)
        """[areas], 1 where the O's goal is on the right, -1 where it is on the left."""
        self.ids = np.arange(areas, dtype=np.int32)
        self._senses = HallSenses(areas, self.hall, setting.rays, setting.sight)
        self._rays = Stack(areas, 1, setting.frames, self._senses.size)
        self._clock = Stack(areas, 1, setting.frames, 1)
        self._age = np.zeros(areas, np.intp)
        self._owed = np.zeros(areas)
        self._statistics: list[Statistic] = []
        self._random = np.random.default_rng(0)
        self._parameters = Parameters()
        self._revision = -1

    def specs(self) -> Mapping[str, BehaviorSpec]:
        """One behaviour of one branch of 5: nothing, forward, back, turn right, turn left."""
        frames = self.setting.frames
        stacked = f"StackingSensor_size{frames}_" if frames > 1 else ""
        sensors = {
            f"{stacked}RayPerceptionSensor": frames * self._senses.size,
            f"{stacked}VectorSensor_size1": frames,
        }
        none = (DimensionProperty.NONE,)
        observations = [
            ObservationSpec((size,), none, ObservationType.DEFAULT, name) for name, size in sensors.items()
        ]
        return {BEHAVIOR: BehaviorSpec(observations, ActionSpec.create_discrete((5,)))}

    def reset(self, random: np.random.Generator, parameters: Parameters) -> Batches:
        """Begin an episode in every hall."""
        self._random, self._parameters = random, parameters
        self._follow_gravity()
        self._begin(np.arange(self.areas))
        return self._ask([])

    def step(self, actions: Actions) -> Batches:
        """Walk for one decision period. Actions: [areas, 1], one of 5."""
        if self._revision != self._parameters.revision:
            self._follow_gravity()
        self.walkers.command(actions[BEHAVIOR][1][:, 0])
        ended: list[Ended] = []
        for _ in range(DECISION_PERIOD):
            self._age += 1
            self._owed -= 1 / self.setting.max_steps
            self.walkers.step()
            at_goal = self._touch()
            over = at_goal | (self._age >= self.setting.max_steps)
            if over.any():
                (which,) = np.nonzero(over)
                ended.append(self._end(which, ~at_goal[which]))
        return self._ask(ended)

    def statistics(self) -> Sequence[Statistic]:
        """`Goal/Correct` and `Goal/Wrong`: 1 for each goal that was reached, 0 at each beginning."""
        statistics, self._statistics = self._statistics, []
        return statistics

    def _follow_gravity(self) -> None:
        """Gravity follows its parameter at once, also within an episode."""
        self._revision = self._parameters.revision
        self.walkers.gravity = self._parameters.get("gravity", SCENE_GRAVITY)

    def _touch(self) -> NDArray[np.bool_]:
        """Who [areas] touches a goal. A goal's reward takes the place of what its decision cost so far."""
        position, extent = self.walkers.position, self.walkers.extent
        goal_x, goal_z = self.hall.goal
        reach = self.hall.goal_half + extent + _TOUCH
        at_goal: NDArray[np.bool_] = np.abs(position[1] - goal_z) < reach
        at_goal &= np.abs(np.abs(position[0]) - goal_x) < reach
        for area in np.flatnonzero(at_goal):
            is_o = (position[0, area] > 0) == (self.o_side[area] > 0)
            right = is_o != self.is_x[area]
            self._owed[area] = _RIGHT_GOAL if right else _WRONG_GOAL
            self._report("Goal/Correct" if right else "Goal/Wrong", 1)
        return at_goal

    def _report(self, name: str, value: float) -> None:
        self._statistics.append((name, value, StatsAggregationMethod.SUM))

    def _end(self, which: Indices, interrupted: NDArray[np.bool_]) -> Ended:
        rays, clock = self._see(which, self._age[which])
        obs = [self._rays.peek(which, rays)[:, 0], self._clock.peek(which, clock)[:, 0]]
        end = Ended(self.ids[which], obs, self._owed[which].astype(np.float32), interrupted)
        self._begin(which)
        return end

    def _begin(self, which: Indices) -> None:
        random, hall, count = self._random, self.hall, len(which)
        self.is_x[which] = random.integers(2, size=count).astype(np.bool_)
        board = np.stack([random.uniform(-hall.spread, hall.spread, count), np.zeros(count)])
        board[0, self.is_x[which]] = 0
        board[1] = random.uniform(-hall.far, hall.far, count)
        position = np.stack(
            [
                random.uniform(-hall.spread, hall.spread, count),
                hall.start + random.uniform(-hall.far, hall.far, count),
            ]
        )
        self.walkers.put(which, position, random.uniform(-np.pi, np.pi, count), board)
        self.o_side[which] = random.choice([-1.0, 1.0], count)
        self._senses.place(which, board, self.is_x[which], self.o_side[which])
        self._rays.clear(which)
        self._clock.clear(which)
        self._age[which] = 0
        self._owed[which] = 0
        for name in ("Goal/Correct", "Goal/Wrong"):
            for _ in range(count):
                self._report(name, 0)

    def _ask(self, ended: Sequence[Ended]) -> Batches:
        everywhere = np.arange(self.areas)
        # As in Unity the step in which a decision is made counts already.
        rays, clock = self._see(everywhere, self._age + 1)
        obs = [self._rays.push(rays)[:, 0], self._clock.push(clock)[:, 0]]
        reward = self._owed.astype(np.float32)
        self._owed[:] = 0
        return {BEHAVIOR: without_groups(self.ids, obs, reward, ended)}

    def _see(self, which: Indices, steps: Indices) -> tuple[Floats, Floats]:
        """A frame of both sensors, [k, 1, ...]."""
        walkers = self.walkers
        rays = self._senses.look(which, walkers.position[:, which], walkers.heading[which])
        return rays, (steps / self.setting.max_steps).astype(np.float32)[:, None, None]
