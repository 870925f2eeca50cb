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

from ...base import StatsAggregationMethod
from ..options import SceneOptions, SceneWorld, option
from ..parts.physics2d import FRICTION, GRAVITY, TIME_STEP, Array, Floats, Indices
from ..parts.sensors import FrameStack, RaySensor, RayTargets, vector_spec
from ..world import Actions, Batches, EndedAgents, Statistic, without_groups

SCENE_GRAVITY = 2 * GRAVITY
"""Downward acceleration, m/s2; all that it does is to press the agents on the ground."""
HALF_BOX = 0.5
"""Half the edge of an agent, in meters."""
BOARD_HALF_DEPTH = 0.5
"""Half the depth of the board with the symbol, in meters."""

_TURN = 3.0
"""The degrees that an agent turns in a physics step."""
_DRAG = 2.0
_FRICTION = 2 * FRICTION
"""The friction where faces or edges touch: there PhysX has two anchor points, and each of them, as Unity sets
it, holds with the full friction."""
_GAP = 0.005
"""The gap between a box and what stops it, meters, so that no ray starts inside an obstacle."""
_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Hall:
    """Where everything is, in the proportions of the original's hall of 20 x 50 m."""

    width: float
    length: float
    """The length of the hall with the walls, in meters."""

    @property
    def half_width(self) -> float:
        """The distance from the center to the inner side of a long wall."""
        return self.width / 2 - 0.5

    @property
    def half_length(self) -> float:
        """The distance from the center to the inner side of a short wall."""
        return self.length / 2 - 0.25

    @property
    def spread(self) -> float:
        """The most that agents and the board with the O are from the center, sideways."""
        return 0.15 * self.width

    @property
    def far(self) -> float:
        """The most that the board is from the hall's center, and an agent from its own, along the hall."""
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
    """The agents, which are boxes, and how they move."""

    def __init__(self, areas: int, hall: Hall, speed: float) -> None:
        """`speed`: meters per second that an action adds in a physics step."""
        self.gravity = SCENE_GRAVITY
        self.position: Array = np.zeros((2, areas))
        self.velocity: Array = np.zeros((2, areas))
        self.heading: Array = np.zeros(areas)
        """The agents' headings, [areas], radians from z towards x."""
        self.board: Array = np.zeros((2, areas))
        """The centers of the boards, [2, areas]."""
        self.extent: Array = np.full(areas, HALF_BOX)
        """How far each box reaches from its center along x and z, [areas]."""
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
        """Make one physics step."""
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


TAGS = ("symbol_O_Goal", "symbol_X_Goal", "symbol_O", "symbol_X", "wall")
O_GOAL, X_GOAL, O_BOARD, X_BOARD, WALL = range(len(TAGS))

_DEGREES = 70.0
_RADIUS = 0.5
_PLATE_REACH = 0.218
"""How far the center of a sphere of 0.5 m on the ground is from a goal's plate, 5 cm high, as they touch."""
_SIGN_HALF = (1.02, 0.572)
"""Half the width of the sign beyond a goal, over half the goal's edge, and half its depth in meters."""
_SIGN_DISTANCE = 2.5
"""The distance of the sign from the goal's center in meters, where the goal has 4 m along an edge."""
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


BEHAVIOR = "Hallway?team=0"
DECISION_PERIOD = 6

_RIGHT_GOAL, _WRONG_GOAL = 1.0, -0.1
_TOUCH = 0.01
"""The contact offset of colliders, in meters."""


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
        """Whether the board shows the X, and not the O, [areas]."""
        self.o_side: Array = np.ones(areas)
        """The side of the O's goal, [areas]: 1 on the right, -1 on the left."""
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
