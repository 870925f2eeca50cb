"""Unity's Cooperative PushBlock: three agents push blocks into a goal, the heaviest ones together.

Numbers and order of events are the official scene's. What an agent adds to the velocity of a block, and what
the ground's friction takes, make small blocks one agent's work, large ones slow work for one, and very large
ones the work of two; in the small size a block needs as many agents as it is worth.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from numpy.typing import NDArray

from ...protocol.engine import Observed
from ..options import SceneOptions, SceneWorld, option, senses_option
from ..parts.agents import AgentGroups
from ..parts.physics2d import DECISION_PERIOD, GRAVITY, Array, Floats, Ground, Indices, RigidBody
from ..parts.sensors import GridSensor, image_spec, others, own_motion, rigid_body, seen_from, vector_spec
from ..world import Actions, Batches, Statistic

ACTIONS = ActionSpec.create_discrete((7,))
"""The actions: nothing, forward, back, turn right, turn left; left, right at three quarters of the speed."""
AGENT = RigidBody(half=0.5, mass=10, drag=4)
"""The body of an agent: the original's box never turns physically; its corners are cut off here."""
GRAVITY_SCALE = 1.5

_FORWARD = np.array([0, 1, -1, 0, 0, 0, 0])
_RIGHT = np.array([0, 0, 0, 0, 0, -0.75, 0.75])
_TURN = np.radians([0, 0, 0, 4, -4, 0, 0])
_TRIES = 48


class PushBlockMotion:
    """The agents' headings, and what their actions do in a physics step."""

    def __init__(self, areas: int, members: int, speed: float) -> None:
        """`speed`: meters per second that an action adds in each physics step."""
        self.heading: Array = np.zeros((areas, members))
        """The agents' headings, [areas, members], radians from z towards x: to the right, seen from above."""
        self.push: Array = np.zeros((2, areas, members))
        """The velocity to add in a physics step, [2, areas, members]."""
        self._turn = np.zeros((areas, members))
        self._speed = speed

    def command(self, asked: Indices, chosen: NDArray[np.int32]) -> None:
        """Repeat these actions until the next ones. `asked`: flat indices [n] of agents; `chosen`: [n]."""
        heading = self.heading.reshape(-1)[asked]
        sine, cosine = np.sin(heading), np.cos(heading)
        forward, right = self._speed * _FORWARD[chosen], self._speed * _RIGHT[chosen]
        push = self.push.reshape(2, -1)
        push[0, asked] = forward * sine + right * cosine
        push[1, asked] = forward * cosine - right * sine
        self._turn.reshape(-1)[asked] = _TURN[chosen]

    def turn(self) -> None:
        """Turn the agents for one physics step."""
        self.heading += self._turn

    def stop(self, areas: Indices, members: Indices | slice = slice(None)) -> None:
        """Let these agents do nothing until their next action."""
        self.push[:, areas, members] = 0
        self._turn[areas, members] = 0


@dataclass(frozen=True, slots=True)
class RandomPlacement:
    """Random places for bodies, one after the other, each free of those before."""

    half: float
    """The most that centers are from the area's, along x and z."""
    room: float
    """Half the edge of the box, around a body's center, in which there must be nothing of another."""
    sizes: Sequence[float]
    """Half the edge of each body to place."""
    taken: Array
    """What stands there already, [3, t]: x, z and half the edge."""
    highest: Sequence[float]
    """The greatest z of each body's center, where that is less than `half`."""

    def sample(self, random: np.random.Generator, areas: int) -> Array:
        """Places [2, areas, bodies]. Where there is hardly room, the freest of 48 places is taken."""
        count = len(self.sizes)
        places = np.zeros((2, areas, self.taken.shape[1] + count))
        places[..., :-count] = self.taken[:2, None]
        sizes = np.concatenate([self.taken[2], self.sizes])
        tries = random.uniform(-self.half, self.half, (count, 2, areas, _TRIES))
        shares = (np.minimum(self.highest, self.half) + self.half) / (2 * self.half)
        tries[:, 1] = (tries[:, 1] + self.half) * shares[:, None, None] - self.half
        for k, tried in enumerate(tries):
            known = places[..., : self.taken.shape[1] + k]
            gap = np.abs(tried[..., None] - known[:, :, None]).max(axis=0) - sizes[: known.shape[2]]
            free = gap.min(axis=2, initial=self.room) if known.shape[2] else np.ones(tried.shape[1:])
            best = (free >= self.room).argmax(axis=1)
            best = np.where((free >= self.room).any(axis=1), best, free.argmax(axis=1))
            places[:, :, known.shape[2]] = tried[:, np.arange(areas), best]
        return places[..., -count:]


Pixels = NDArray[np.uint8]

TAGS = ("wall", "agent", "goal", "blockSmall", "blockLarge", "blockVeryLarge")
EDGES: Array = np.array([1.0, 2.0, 3.0])
"""The edges of small, large and very large blocks, in meters."""
WORTH: Array = np.array([1.0, 2.0, 3.0])
CELLS = 20
"""The number of cells along each edge of the grid; a cell is 1 m wide."""

_WALL, _AGENT, _GOAL, _FIRST_BLOCK = range(4)
_WALL_THICKNESS = 1.0
_FULL = np.uint8(255)


@dataclass(frozen=True, slots=True)
class PushBlockView:
    """Some areas [k] of m agents and b blocks at a moment."""

    pose: Array
    """The poses, [3, k, m + b], x, z and angle, the agents first."""
    heading: Array
    """The headings of the agents, [k, m]."""
    velocity: Array
    """The velocities of the agents, [2, k, m]."""
    present: NDArray[np.bool_]
    """Which blocks are still there, [k, b]."""


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
        """The agents' grids [k, m, 6, 20, 20] of 0 and 255; the goal is not shown where something else is."""
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


BEHAVIOR = "PushBlockCollab?team=0"
MASSES = (10.0, 100.0, 150.0)

_BLOCK_DRAG = 0.5
_TIME_PENALTY = -0.5
"""The group's reward for an episode of the full length in which nothing comes in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoopPushOptions(SceneOptions):
    """Sizes and duration."""

    scene: ClassVar[str] = "coop-push"

    areas: int = option(4, "how many areas there are")
    agents: int = option(3, "of an area")
    ground: float = option(25.0, "meters along each edge of the ground", small=7.0)
    goal: float = option(4.3, "meters from its edge to the wall behind it", small=2.0)
    speed: float = option(3.0, "meters per second that an action adds in each physics step", small=1.0)
    weight: float = option(1.0, "of the blocks, as a multiple of the original's", small=0.7)
    small_blocks: int = option(2, "of an area, worth 1 each", may_be_zero=True)
    large_blocks: int = option(2, "of an area, worth 2 each", small=1, may_be_zero=True)
    very_large_blocks: int = option(2, "of an area, worth 3 each", small=0, may_be_zero=True)
    room: float = option(1.5, "free meters around whatever is placed at the start of an episode", small=0.6)
    max_steps: int = option(5000, "physics steps of an episode", small=1000, decision_period=DECISION_PERIOD)
    senses: str = senses_option(grid="a grid and the own body", vector="places of everything")

    def check(self) -> None:
        """Refuse a world without blocks."""
        if not (self.small_blocks or self.large_blocks or self.very_large_blocks):
            raise ValueError("coop-push has no blocks; it needs at least one, of any size.")


class CoopPush(SceneWorld[CoopPushOptions]):
    """Any number of areas, the agents of each in one group. Omitted options take the values of `size`."""

    options_type = CoopPushOptions
    parameters_read = ()

    def __init__(self, **given: int | float | str) -> None:
        super().__init__(**given)
        options = self.options
        counts = (options.small_blocks, options.large_blocks, options.very_large_blocks)
        self.kinds: Indices = np.repeat(np.arange(3), counts)
        """The kinds of the blocks, [blocks]: 0 small, 1 large, 2 very large."""
        self.halves = EDGES[self.kinds] / 2
        self._make_bodies()

    def _make_bodies(self) -> None:
        """Create agents, blocks and the ground."""
        options, areas = self.options, self.areas
        blocks = [
            RigidBody(EDGES[kind] / 2, MASSES[kind] * options.weight, _BLOCK_DRAG, square=True)
            for kind in self.kinds
        ]
        half, agents = options.ground / 2, options.agents
        self.bodies = Ground(areas, half, [AGENT] * agents + blocks, GRAVITY * GRAVITY_SCALE)
        self.motion_control = PushBlockMotion(areas, agents, options.speed)
        self.groups = AgentGroups(areas, agents)
        self._agent_sets = [self.groups]
        self.goal = half - options.goal
        """The z from which the goal reaches to the wall."""
        self.turned = np.zeros(areas, np.intp)
        """Quarter turns of each area in the world; agents do not notice."""
        sizes = [*[AGENT.half] * agents, *self.halves]
        # No block lies in the goal at the start, whatever its rotation.
        highest = [*[half] * agents, *(self.goal - np.sqrt(2) * self.halves)]
        if min(highest) <= -half / 2:
            raise ValueError(
                f"coop-push: a ground of {options.ground} m with a goal of {options.goal} m has no room for "
                f"blocks of {2 * self.halves.max():g} m before it."
            )
        self._placement = RandomPlacement(half / 2, options.room, sizes, np.zeros((3, 0)), highest)
        self._sensors = PushBlockSensors(agents, self.kinds, half, self.goal)

    def specs(self) -> Mapping[str, BehaviorSpec]:
        """One behavior of one branch of 7."""
        observations = [vector_spec(self._sensors.places_size)]
        if self.options.senses == "grid":
            grid = image_spec((len(TAGS), CELLS, CELLS), "GridSensor")
            observations = [grid, vector_spec(10, "PhysicsBodySensor:Agent")]
        return {BEHAVIOR: BehaviorSpec(observations, ACTIONS)}

    def step(self, actions: Actions) -> Batches:
        """Push for one decision period. Actions: one of 7 for each agent."""
        self.motion_control.command(self.groups.asking, actions[BEHAVIOR][1][:, 0])
        for _ in range(DECISION_PERIOD):
            self.motion_control.turn()
            self.bodies.step(self.motion_control.push)
            self._age += 1
            self.groups.add_reward(_TIME_PENALTY / self.options.max_steps)
            self._score_blocks()
            late = self._age >= self.options.max_steps
            if late.any():
                (which,) = np.nonzero(late)
                self._end_episodes(which, interrupted=True)
        return self._request_decisions()

    def statistics(self) -> Sequence[Statistic]:
        """The returns of the groups whose episodes ended."""
        return self.groups.take_returns()

    def _score_blocks(self) -> None:
        """Blocks that reach the goal disappear and add their reward; the last one ends the episode."""
        agents = self.options.agents
        near = self.bodies.pose[1] + self.bodies.extent >= self.goal
        near &= self.bodies.present
        areas, blocks = np.nonzero(near[:, agents:])
        if not len(areas):
            return
        self.bodies.remove(areas, blocks + agents)
        self.groups.add_reward(np.bincount(areas, WORTH[self.kinds[blocks]], self.areas).astype(np.float64))
        (empty,) = np.nonzero(~self.bodies.present[:, agents:].any(axis=1))
        if len(empty):
            self._end_episodes(empty, interrupted=False)

    def _end_episodes(self, which: Indices, interrupted: bool) -> None:
        self.groups.end_episodes(which, self._observe(which), interrupted)
        self._start_episodes(which)

    def _start_episodes(self, which: Indices) -> None:
        agents, count = self.options.agents, self.bodies.shape[1]
        pose = np.zeros((3, len(which), count))
        pose[:2] = self._placement.sample(self._random, len(which))
        angles = self._random.uniform(-np.pi, np.pi, (len(which), count))
        pose[2, :, agents:] = angles[:, agents:]
        self.bodies.put(which, pose)
        self.motion_control.heading[which] = angles[:, :agents]
        self.motion_control.stop(which)
        self.turned[which] = self._random.integers(4, size=len(which))
        self._age[which] = 0

    def _request_decisions(self) -> Batches:
        return {BEHAVIOR: self.groups.request_decisions(self._observe(slice(None)))}

    def _observe(self, areas: Indices | slice) -> list[Observed]:
        """The observations of all agents of these areas."""
        agents = self.options.agents
        view = PushBlockView(
            pose=self.bodies.pose[:, areas],
            heading=self.motion_control.heading[areas],
            velocity=self.bodies.motion[:2, areas, :agents],
            present=self.bodies.present[areas, agents:],
        )
        if self.options.senses == "vector":
            return [self._sensors.places(view)]
        return [self._sensors.grid(view), self._sensors.body(view)]
