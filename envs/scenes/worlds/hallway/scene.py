"""Unity's Hallway: see a symbol, walk on until it is out of sight, and choose the goal that has the same one.

Rules and numbers are the official scene's. The rays are shorter than the way from the symbol to the goals, so
that the choice takes memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from numpy.typing import NDArray

from ....base import StatsAggregationMethod
from ...options import SceneOptions, SceneWorld, option
from ...physics2d import Array, Floats, Indices
from ...sensors import FrameStack, vector_spec
from ...world import Actions, Batches, EndedAgents, Statistic, without_groups
from .dynamics import SCENE_GRAVITY, Hall, HallwayDynamics
from .sensors import HallwaySensors

BEHAVIOR = "Hallway?team=0"
DECISION_PERIOD = 6

_RIGHT_GOAL, _WRONG_GOAL = 1.0, -0.1
_TOUCH = 0.01
"""Meters: colliders' contact offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HallwayOptions(SceneOptions):
    """Sizes, speeds and duration."""

    scene: ClassVar[str] = "hallway"

    areas: int = option(16, "how many halls there are")
    width: float = option(
        20.0,
        "of the hall with its walls, meters; board, goals and starting places are in proportion",
        small=6.0,
    )
    length: float = option(50.0, "of the hall, meters", small=17.0)
    speed: float = option(1.5, "meters per second that an action adds in each physics step")
    rays: int = option(2, "on either side of the middle one")
    sight: float = option(12.0, "meters that rays reach", small=3.0)
    frames: int = option(3, "how many decisions' observations an agent sees at once", small=1)
    max_steps: int = option(3000, "physics steps of an episode", small=1800, decision_period=DECISION_PERIOD)


class Hallway(SceneWorld[HallwayOptions]):
    """Any number of halls, one agent to each. Omitted options take the values of `size`."""

    options_type = HallwayOptions
    parameters_read = ("gravity",)
    gravity = SCENE_GRAVITY

    def __init__(self, **given: int | float | str) -> None:
        super().__init__(**given)
        options, areas = self.options, self.areas
        self.hall = Hall(options.width, options.length)
        if self.hall.half_width < self.hall.board_half + 1.5 or options.length < options.width:
            raise ValueError(
                f"hallway: in a hall of {options.width:g} x {options.length:g} m no agent can pass; "
                "it must be at least 5 m wide, and no wider than it is long."
            )
        self.dynamics: HallwayDynamics = HallwayDynamics(areas, self.hall, options.speed)
        self.is_x: NDArray[np.bool_] = np.zeros(areas, np.bool_)
        """[areas], whether the board shows the X, and not the O."""
        self.o_side: Array = np.ones(areas)
        """[areas], 1 where the O's goal is on the right, -1 where it is on the left."""
        self.ids = np.arange(areas, dtype=np.int32)
        self._sensors = HallwaySensors(areas, self.hall, options.rays, options.sight)
        self._rays = FrameStack(areas, 1, options.frames, self._sensors.size)
        self._clock = FrameStack(areas, 1, options.frames, 1)
        self._owed = np.zeros(areas)
        self._statistics: list[Statistic] = []

    def specs(self) -> Mapping[str, BehaviorSpec]:
        """One behavior of one branch of 5: nothing, forward, back, turn right, turn left."""
        frames = self.options.frames
        stacked = f"StackingSensor_size{frames}_" if frames > 1 else ""
        rays = vector_spec(frames * self._sensors.size, f"{stacked}RayPerceptionSensor")
        clock = vector_spec(frames, f"{stacked}VectorSensor_size1")
        return {BEHAVIOR: BehaviorSpec([rays, clock], ActionSpec.create_discrete((5,)))}

    def step(self, actions: Actions) -> Batches:
        """Walk for one decision period. Actions: [areas, 1], one of 5."""
        self._apply_gravity()
        self.dynamics.command(actions[BEHAVIOR][1][:, 0])
        ended: list[EndedAgents] = []
        for _ in range(DECISION_PERIOD):
            self._age += 1
            self._owed -= 1 / self.options.max_steps
            self.dynamics.step()
            at_goal = self._touch()
            over = at_goal | (self._age >= self.options.max_steps)
            if over.any():
                (which,) = np.nonzero(over)
                ended.append(self._end_episodes(which, ~at_goal[which]))
        return self._request_decisions(ended)

    def statistics(self) -> Sequence[Statistic]:
        """`Goal/Correct` and `Goal/Wrong`: 1 for each goal that was reached, 0 at the start of an episode."""
        statistics, self._statistics = self._statistics, []
        return statistics

    def _touch(self) -> NDArray[np.bool_]:
        """Which agents [areas] touch a goal. A goal's reward replaces the reward since the last decision."""
        position, extent = self.dynamics.position, self.dynamics.extent
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

    def _end_episodes(self, which: Indices, interrupted: NDArray[np.bool_]) -> EndedAgents:
        rays, clock = self._see(which, self._age[which])
        obs = [self._rays.peek(which, rays)[:, 0], self._clock.peek(which, clock)[:, 0]]
        end = EndedAgents(self.ids[which], obs, self._owed[which].astype(np.float32), interrupted)
        self._start_episodes(which)
        return end

    def _start_episodes(self, which: Indices) -> None:
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
        self.dynamics.put(which, position, random.uniform(-np.pi, np.pi, count), board)
        self.o_side[which] = random.choice([-1.0, 1.0], count)
        self._sensors.place(which, board, self.is_x[which], self.o_side[which])
        self._rays.clear(which)
        self._clock.clear(which)
        self._age[which] = 0
        self._owed[which] = 0
        for name in ("Goal/Correct", "Goal/Wrong"):
            for _ in range(count):
                self._report(name, 0)

    def _request_decisions(self, ended: Sequence[EndedAgents] = ()) -> Batches:
        everywhere = np.arange(self.areas)
        # As in Unity the step in which a decision is made counts already.
        rays, clock = self._see(everywhere, self._age + 1)
        obs = [self._rays.push(rays)[:, 0], self._clock.push(clock)[:, 0]]
        reward = self._owed.astype(np.float32)
        self._owed[:] = 0
        return {BEHAVIOR: without_groups(self.ids, obs, reward, ended)}

    def _see(self, which: Indices, steps: Indices) -> tuple[Floats, Floats]:
        """A frame of both sensors, [k, 1, ...]."""
        walkers = self.dynamics
        rays = self._sensors.observe(which, walkers.position[:, which], walkers.heading[which])
        return rays, (steps / self.options.max_steps).astype(np.float32)[:, None, None]
