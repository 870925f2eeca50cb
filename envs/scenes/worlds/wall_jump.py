"""Unity's WallJump: get to the goal beyond a wall by a jump, or by a jump from a block.

There are two behaviors, for walls that are low or not there and for high ones, and an agent changes from one
to the other between its episodes. Numbers and order of events are the official scene's; what its description
leaves open is said beside the constants.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlagents_envs.base_env import ActionSpec, BehaviorSpec, ObservationSpec
from numpy.typing import NDArray

from ..options import SceneOptions, SceneWorld, option, senses_option
from ..parts.agents import IndependentAgents
from ..parts.physics2d import DECISION_PERIOD, GRAVITY, Array, Floats, Indices
from ..parts.sensors import FrameStack, RaySensor, RayTargets, own_motion, seen_from, vector_spec
from ..world import Actions, Batches
from .wall_jump_dynamics import (
    AGENT_HALF,
    BLOCK_HALF,
    BLOCK_HEIGHT,
    GRAVITY_SCALE,
    WALL_HALF,
    WallJumpDynamics,
)

TAGS = ("wall", "goal", "block")
FRAMES = 6
PLACE = 4
"""The number of values per frame for an agent's position."""
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
    """The positions of the agents, [3, k]: x, y, z."""
    velocity: Array
    """The velocities of the agents, [3, k]."""
    heading: Array
    """The headings of the agents, [k]."""
    block: Array
    """The positions of the blocks, [2, k], x and z."""
    wall: Array
    """The heights of the walls above the platform, [k], meters; 0 for no wall."""
    near_ground: NDArray[np.bool_]
    """Which agents are near the ground, [k]."""


class WallJumpSensors:
    """The sensors, set up with what is the same in every area and episode."""

    def __init__(self, platform: float, middle: float, goal_middle: float, goal: float) -> None:
        """`platform`, `goal`: meters along each edge. `middle`, `goal_middle`: their z."""
        self._half, self._middle = platform / 2, middle
        self._goal_middle, self._goal = goal_middle, goal / 2
        self._rays = RaySensor(per_side=3, degrees=90, length=_LENGTH, tags=len(TAGS), radius=_RADIUS)
        self.sizes = (self._rays.size, self._rays.size, PLACE)
        """The number of values in a frame of each sensor."""

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


SMALL, BIG = "SmallWallJump?team=0", "BigWallJump?team=0"
BEHAVIORS = (SMALL, BIG)

_TURN = np.radians([0, -6, 6])
_FORWARD = np.array([0, 1, -1])
_SIDE = np.array([0, -0.6, 0.6])
_TIME_PENALTY = -0.0005
"""The reward of a physics step."""
_WALLS = ("no_wall_height", "small_wall_height", "big_wall_height", "big_wall_height", "big_wall_height")
"""The parameters of five cases that are equally likely."""
_SMALL_CASES = 2
"""The number of these cases, from the first on, whose behavior is the one for small walls."""
_FAR_SHARE = 0.3
"""The share of the platform beyond the wall's center; the wall's position in the original is unknown."""
_START = 0.6
"""Distance from the wall's center to where agents start, as a share of the platform: 12 m."""
_START_WIDTH = 0.9
_BLOCK_ZONE = (0.405, 0.325, 0.35)
"""The zone where blocks start: half its width, the distance of its center from the wall's, and its depth, as
shares of the platform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WallJumpOptions(SceneOptions):
    """Sizes and duration."""

    scene: ClassVar[str] = "wall-jump"

    areas: int = option(24, "how many platforms there are")
    platform: float = option(20.0, "meters along each edge of the platform", small=14.0)
    goal: float = option(4.0, "meters along each edge of the goal", small=3.0)
    small_wall: float = option(
        4.0, "of a small wall, half of it above the ground; small_wall_height wins over it"
    )
    big_wall: float = option(8.0, "of a big wall, half of it above the ground; big_wall_height wins over it")
    speed: float = option(3.0, "meters per second that an action adds in each physics step", small=0.8)
    max_steps: int = option(2000, "physics steps of an episode", small=800, decision_period=DECISION_PERIOD)
    senses: str = senses_option(rays="two fans of rays and the own place", vector="places of everything")

    def check(self) -> None:
        """Refuse platforms without room for block and goal."""
        least = max(
            2 * (BLOCK_HALF + 2 * AGENT_HALF) / _BLOCK_ZONE[0] / 2, (self.goal + WALL_HALF) / _FAR_SHARE
        )
        if self.platform < least:
            raise ValueError(
                f"wall-jump: a platform of {self.platform:g} m has no room for a block and a goal of "
                f"{self.goal:g} m; it must be at least {least:.1f} m."
            )


class WallJump(SceneWorld[WallJumpOptions]):
    """Any number of platforms with an agent on each. Omitted options take the values of `size`."""

    options_type = WallJumpOptions
    parameters_read = ("no_wall_height", "small_wall_height", "big_wall_height", "gravity")
    gravity = GRAVITY * GRAVITY_SCALE

    def __init__(self, **given: int | float | str) -> None:
        super().__init__(**given)
        options, areas = self.options, self.areas
        self.dynamics: WallJumpDynamics = WallJumpDynamics(areas)
        self.agents = IndependentAgents(areas, len(BEHAVIORS))
        self._agent_sets = [self.agents]
        self.heading: Array = np.zeros(areas)
        """The agents' headings, [areas], radians from z towards x."""
        self.near, self.far = -(1 - _FAR_SHARE) * options.platform, _FAR_SHARE * options.platform
        """The platform's edges along z; the wall's center is at 0."""
        self.goal_middle = WALL_HALF + (self.far - WALL_HALF) / 2
        """The z of the goal's center; its x is 0."""
        self._sensors = WallJumpSensors(
            options.platform, (self.near + self.far) / 2, self.goal_middle, options.goal
        )
        self._frames = [FrameStack(areas, 1, FRAMES, size) for size in self._sensors.sizes]
        self._action: NDArray[np.int32] = np.zeros((areas, 4), np.int32)

    def specs(self) -> Mapping[str, BehaviorSpec]:
        """Two behaviors of one specification: four branches, forward and back, turn, sideways, jump."""
        observations = self._sensors.specs(self.options.senses)
        return {
            name: BehaviorSpec(observations, ActionSpec.create_discrete((3, 3, 3, 2))) for name in BEHAVIORS
        }

    def step(self, actions: Actions) -> Batches:
        """Run for one decision period. Actions: 3, 3, 3 and 2 for each agent."""
        self._apply_gravity()
        for name, asked in zip(BEHAVIORS, self.agents.asking):
            if len(asked):
                self._action[asked] = actions[name][1]
        for _ in range(DECISION_PERIOD):
            self._act()
            self.dynamics.step()
            self._age += 1
            self._apply_rules()
        return self._request_decisions()

    def _act(self) -> None:
        forward, turn, side, jump = self._action.T
        sine, cosine = np.sin(self.heading), np.cos(self.heading)
        ahead, aside = np.where(side == 0, _FORWARD[forward], 0), _SIDE[side]
        direction = np.stack([ahead * sine + aside * cosine, ahead * cosine - aside * sine])
        self.heading += _TURN[turn]
        self.dynamics.run(direction, self.options.speed, jump == 1)
        self.agents.add_reward(_TIME_PENALTY)

    def _apply_rules(self) -> None:
        """Agents that leave the platform, or whose blocks do, fail; agents that stand in the goal succeed."""
        x, _, z = self.dynamics.position
        half = self.options.platform / 2
        block_x, block_z = self.dynamics.block
        wide = np.maximum(np.abs(x), np.abs(block_x)) > half
        lost = wide | (np.minimum(z, block_z) < self.near) | (np.maximum(z, block_z) > self.far)
        reach = self.options.goal / 2 + AGENT_HALF
        home = np.maximum(np.abs(x), np.abs(z - self.goal_middle)) < reach
        home &= self.dynamics.near_ground() & ~lost
        late = (self._age >= self.options.max_steps) & ~(lost | home)
        for over, reward in ((lost, -1.0), (home, 1.0), (late, None)):
            (which,) = np.nonzero(over)
            if len(which):
                if reward is not None:
                    self.agents.set_reward(which, reward)
                self._end_episodes(which, interrupted=reward is None)

    def _end_episodes(self, which: Indices, interrupted: bool) -> None:
        seen = self._sensors.observe(self._view(which), self.options.senses)
        if self.options.senses == "rays":
            frames = zip(self._frames, seen)
            seen = [stack.peek(which, frame[:, None])[:, 0] for stack, frame in frames]
        self.agents.end_episodes(which, seen, interrupted)
        self._start_episodes(which)

    def _start_episodes(self, which: Indices) -> None:
        """Set up new walls, which may change the behaviors; the headings stay."""
        random, platform, count = self._random, self.options.platform, len(which)
        case = random.integers(len(_WALLS), size=count)
        self.agents.behavior[which] = case >= _SMALL_CASES
        defaults = (0.0, self.options.small_wall, *[self.options.big_wall] * 3)
        heights = np.array([self._parameters.get(_WALLS[k], defaults[k]) for k in case])
        width, middle, depth = np.array(_BLOCK_ZONE) * platform
        blocks = random.uniform(-1, 1, (2, count)) * np.array([[width], [depth / 2]])
        blocks[1] -= middle
        start = np.stack(
            [_START_WIDTH * platform * (random.random(count) - 0.5), np.full(count, -_START * platform)]
        )
        # Half of a wall is below the ground.
        self.dynamics.put(which, start, blocks, np.maximum(heights, 0) / 2)
        self._action[which] = 0
        self._age[which] = 0
        for stack in self._frames:
            stack.clear(which)

    def _request_decisions(self) -> Batches:
        seen = self._sensors.observe(self._view(np.arange(self.areas)), self.options.senses)
        if self.options.senses == "rays":
            seen = [stack.push(frame[:, None])[:, 0] for stack, frame in zip(self._frames, seen)]
        return dict(zip(BEHAVIORS, self.agents.request_decisions(seen)))

    def _view(self, which: Indices) -> WallJumpView:
        return WallJumpView(
            position=self.dynamics.position[:, which],
            velocity=self.dynamics.velocity[:, which],
            heading=self.heading[which],
            block=self.dynamics.block[:, which],
            wall=self.dynamics.wall[which],
            near_ground=self.dynamics.near_ground()[which],
        )
