"""Unity's Cooperative PushBlock: three agents push blocks into a goal, the heaviest ones together.

Numbers and order of events are the official scene's. What an agent adds to the velocity of a block, and what
the ground's friction takes, make small blocks one agent's work, large ones slow work for one, and very large
ones the work of two; in the small size a block needs as many agents as it is worth.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlagents_envs.base_env import BehaviorSpec

from ....protocol.engine import Observed
from ...agents import AgentGroups
from ...options import SceneOptions, SceneWorld, option, senses_option
from ...physics2d import DECISION_PERIOD, GRAVITY, Ground, Indices, RigidBody
from ...sensors import image_spec, vector_spec
from ...world import Actions, Batches, Statistic
from .dynamics import ACTIONS, AGENT, GRAVITY_SCALE, PushBlockMotion, RandomPlacement
from .sensors import CELLS, EDGES, TAGS, WORTH, PushBlockSensors, PushBlockView

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
        """[blocks], 0 small, 1 large, 2 very large."""
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
        """The goal reaches from this z to the wall."""
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
