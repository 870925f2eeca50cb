"""Unity's Cooperative PushBlock: three agents push blocks into a goal, the heaviest ones together.

Numbers and order of events are the official scene's. What an agent adds to the velocity of a block, and what
the ground's friction takes, make small blocks one agent's work, large ones slow work for one, and very large
ones the work of two; in the small setting a block needs as many agents as it is worth.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from mlagents_envs.base_env import BehaviorSpec, DimensionProperty, ObservationSpec, ObservationType
from numpy.typing import NDArray

from ....protocol.engine import Observed
from ...agents import Groups
from ...options import SceneSetting, choose
from ...physics2d import GRAVITY, Body, Ground
from ...world import Actions, Batches, Parameters, Statistic, World
from .dynamics import ACTIONS, AGENT, DECISION_PERIOD, GRAVITY_SCALE, Pushers, Spread, check_length
from .sensors import CELLS, EDGES, TAGS, WORTH, PushSenses, View

BEHAVIOR = "PushBlockCollab?team=0"
MASSES = (10.0, 100.0, 150.0)

_BLOCK_DRAG = 0.5
_HURRY = -0.5
"""The group's reward for an episode of the full length in which nothing comes in."""

Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Setting(SceneSetting):
    """How large and how long everything is."""

    senses: str
    """What agents observe."""
    agents: int
    ground: float
    """Metres along each edge."""
    goal: float
    """Metres from the goal's edge to the wall behind it."""
    speed: float
    """What an action adds to the velocity in a physics step, m/s."""
    weight: float
    """The blocks' masses, as multiples of the original's."""
    small_blocks: int
    large_blocks: int
    very_large_blocks: int
    room: float
    """Half the edge of the box that must be free around a body when an episode begins."""
    max_steps: int
    """Physics steps of an episode."""


SETTINGS = {
    "full": Setting("grid", 3, 25.0, 4.3, 3.0, 1.0, 2, 2, 2, 1.5, 5000),
    "small": Setting("vector", 3, 7.0, 2.0, 1.0, 0.7, 2, 1, 0, 0.6, 1000),
}


class CoopPush(World):
    """Any number of areas, the agents of each in one group. Options that are not given are as `size` says."""

    def __init__(
        self,
        areas: int = 4,
        size: str = "full",
        agents: int = 0,
        ground: float = 0.0,
        goal: float = 0.0,
        speed: float = 0.0,
        weight: float = 0.0,
        small_blocks: int = -1,
        large_blocks: int = -1,
        very_large_blocks: int = -1,
        room: float = 0.0,
        max_steps: int = 0,
        senses: str = "",
    ) -> None:
        """What is left at its default is as `size` says.

        `areas`: how many areas there are.
        `size`: full is the original, small is for learning within minutes.
        `agents`: of an area.
        `ground`: metres along each edge of the ground.
        `goal`: metres from its edge to the wall behind it.
        `speed`: metres per second that an action adds in each physics step.
        `weight`: of the blocks, as a multiple of the original's.
        `small_blocks`: of an area, worth 1 each.
        `large_blocks`: of an area, worth 2 each.
        `very_large_blocks`: of an area, worth 3 each.
        `room`: free metres around whatever is placed at the beginning of an episode.
        `max_steps`: physics steps of an episode.
        `senses`: grid (a grid and the own body) or vector (places of everything).
        """
        given = {
            "agents": agents,
            "ground": ground,
            "goal": goal,
            "speed": speed,
            "weight": weight,
            "small_blocks": small_blocks,
            "large_blocks": large_blocks,
            "very_large_blocks": very_large_blocks,
            "room": room,
            "max_steps": max_steps,
            "senses": senses,
        }
        self.setting = setting = choose("coop-push", SETTINGS, size, areas, given)
        check_length("coop-push", setting.max_steps)
        self.areas = areas
        counts = (setting.small_blocks, setting.large_blocks, setting.very_large_blocks)
        if not sum(counts):
            raise ValueError("coop-push has no blocks; it needs at least one, of any size.")
        self.kinds: Indices = np.repeat(np.arange(3), counts)
        """[blocks], 0 small, 1 large, 2 very large."""
        self.halves = EDGES[self.kinds] / 2
        self._make_bodies()

    def _make_bodies(self) -> None:
        """Agents, blocks and the ground, as the setting says."""
        setting, areas = self.setting, self.areas
        blocks = [
            Body(EDGES[kind] / 2, MASSES[kind] * setting.weight, _BLOCK_DRAG, square=True)
            for kind in self.kinds
        ]
        half, agents = setting.ground / 2, setting.agents
        self.bodies = Ground(areas, half, [AGENT] * agents + blocks, GRAVITY * GRAVITY_SCALE)
        self.pushers = Pushers(areas, agents, setting.speed)
        self.groups = Groups(areas, agents)
        self.goal = half - setting.goal
        """The goal begins at this z and reaches to the wall."""
        self.turned = np.zeros(areas, np.intp)
        """Quarter turns of each area in the world; agents do not notice."""
        sizes = [*[AGENT.half] * agents, *self.halves]
        # However a block is turned, it does not lie in the goal at the beginning.
        highest = [*[half] * agents, *(self.goal - np.sqrt(2) * self.halves)]
        if min(highest) <= -half / 2:
            raise ValueError(
                f"coop-push: a ground of {setting.ground} m with a goal of {setting.goal} m has no room for "
                f"blocks of {2 * self.halves.max():g} m before it."
            )
        self._spread = Spread(half / 2, setting.room, sizes, np.zeros((3, 0)), highest)
        self._senses = PushSenses(agents, self.kinds, half, self.goal)
        self._age = np.zeros(areas, np.intp)
        self._random = np.random.default_rng(0)

    def specs(self) -> Mapping[str, BehaviorSpec]:
        """One behaviour of one branch of 7."""
        observations = [_vector(f"VectorSensor_size{self._senses.places_size}", self._senses.places_size)]
        if self.setting.senses == "grid":
            image = (DimensionProperty.NONE, *[DimensionProperty.TRANSLATIONAL_EQUIVARIANCE] * 2)
            grid = ObservationSpec((len(TAGS), CELLS, CELLS), image, ObservationType.DEFAULT, "GridSensor")
            observations = [grid, _vector("PhysicsBodySensor:Agent", 10)]
        return {BEHAVIOR: BehaviorSpec(observations, ACTIONS)}

    def reset(self, random: np.random.Generator, parameters: Parameters) -> Batches:
        """Begin an episode in every area."""
        self._random = random
        self.groups.reset()
        everywhere = np.arange(self.areas)
        self._begin(everywhere)
        return {BEHAVIOR: self.groups.ask(self._observe(everywhere))}

    def step(self, actions: Actions) -> Batches:
        """Push for one decision period. Actions: one of 7 for each agent."""
        self.pushers.command(self.groups.asking, actions[BEHAVIOR][1][:, 0])
        for _ in range(DECISION_PERIOD):
            self.pushers.turn()
            self.bodies.step(self.pushers.push)
            self._age += 1
            self.groups.earn(_HURRY / self.setting.max_steps)
            self._take_in()
            late = self._age >= self.setting.max_steps
            if late.any():
                (which,) = np.nonzero(late)
                self._end(which, interrupted=True)
        return {BEHAVIOR: self.groups.ask(self._observe(slice(None)))}

    def statistics(self) -> Sequence[Statistic]:
        """What the groups have earned whose episodes ended."""
        return self.groups.returns()

    def _take_in(self) -> None:
        """Blocks that reach the goal disappear and are paid for; who has them all ends its episode."""
        agents = self.setting.agents
        near = self.bodies.pose[1] + self.bodies.extent >= self.goal
        near &= self.bodies.present
        areas, blocks = np.nonzero(near[:, agents:])
        if not len(areas):
            return
        self.bodies.remove(areas, blocks + agents)
        self.groups.earn(np.bincount(areas, WORTH[self.kinds[blocks]], self.areas).astype(np.float64))
        (empty,) = np.nonzero(~self.bodies.present[:, agents:].any(axis=1))
        if len(empty):
            self._end(empty, interrupted=False)

    def _end(self, which: Indices, interrupted: bool) -> None:
        self.groups.end(which, self._observe(which), interrupted)
        self._begin(which)

    def _begin(self, which: Indices) -> None:
        agents, count = self.setting.agents, self.bodies.shape[1]
        pose = np.zeros((3, len(which), count))
        pose[:2] = self._spread.draw(self._random, len(which))
        angles = self._random.uniform(-np.pi, np.pi, (len(which), count))
        pose[2, :, agents:] = angles[:, agents:]
        self.bodies.put(which, pose)
        self.pushers.heading[which] = angles[:, :agents]
        self.pushers.stop(which)
        self.turned[which] = self._random.integers(4, size=len(which))
        self._age[which] = 0

    def _observe(self, areas: Indices | slice) -> list[Observed]:
        """What everybody in these areas sees."""
        agents = self.setting.agents
        view = View(
            pose=self.bodies.pose[:, areas],
            heading=self.pushers.heading[areas],
            velocity=self.bodies.motion[:2, areas, :agents],
            present=self.bodies.present[areas, agents:],
        )
        if self.setting.senses == "vector":
            return [self._senses.places(view)]
        return [self._senses.grid(view), self._senses.body(view)]


def _vector(name: str, size: int) -> ObservationSpec:
    return ObservationSpec((size,), (DimensionProperty.NONE,), ObservationType.DEFAULT, name)
