"""Unity's FoodCollector: agents gather good food, avoid bad food and can freeze each other.

Rules, numbers and observations are the official scene's; its agents have no group and no common reward.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from numpy.typing import NDArray

from ....base import StatsAggregationMethod
from ...agents import Soloists
from ...options import SceneSetting, choose
from ...physics2d import TIME_STEP
from ...world import Actions, Batches, Parameters, Statistic, World
from ..push_block.dynamics import DECISION_PERIOD, check_length
from .dynamics import AGENT_HALF, Field
from .sensors import FoodSenses, View

BEHAVIOR = "FoodCollector?team=0"
TOTAL_SCORE = "TotalScore"
"""The statistic of what all agents together have earned since the environment's reset."""

_TURN = np.radians(6)
_FREEZE_STEPS = round(4 / TIME_STEP)
_SHOT_PUSH, _SHOT_VELOCITY = 0.5, 0.75
"""What shooting leaves of an agent's motion."""
_SPREAD = 0.9
"""Agents and food begin within this part of the field's half edge: 45 m."""
_SCORE_STEPS = 100
"""Physics steps between two statistics."""

Indices = NDArray[np.intp]
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Setting(SceneSetting):
    """How large, how much and how long everything is."""

    senses: str
    """What agents observe."""
    agents: int
    ground: float
    """Metres along each edge."""
    good_food: int
    bad_food: int
    speed: float
    """What an action adds to the velocity in a physics step, m/s."""
    max_steps: int
    """Physics steps of an episode."""


SETTINGS = {
    "full": Setting("grid", 5, 100.0, 25, 25, 2.0, 5000),
    "small": Setting("vector", 5, 24.0, 10, 10, 2.0, 1000),
}


class Food(World):
    """Any number of fields with some agents on each. Options that are not given are as `size` says."""

    def __init__(
        self,
        areas: int = 4,
        size: str = "full",
        agents: int = 0,
        ground: float = 0.0,
        good_food: int = 0,
        bad_food: int = 0,
        speed: float = 0.0,
        max_steps: int = 0,
        senses: str = "",
    ) -> None:
        """What is left at its default is as `size` says.

        `areas`: how many fields there are.
        `size`: full is the original, small is for learning within minutes.
        `agents`: of a field.
        `ground`: metres along each edge of a field.
        `good_food`: foods of a field that are worth 1.
        `bad_food`: foods of a field that cost 1.
        `speed`: metres per second that a full action adds in each physics step.
        `max_steps`: physics steps of an episode.
        `senses`: grid (a grid around the agent) or vector (places of what is near).
        """
        given = {
            "agents": agents,
            "ground": ground,
            "good_food": good_food,
            "bad_food": bad_food,
            "speed": speed,
            "max_steps": max_steps,
            "senses": senses,
        }
        self.setting = setting = choose("food", SETTINGS, size, areas, given)
        check_length("food", setting.max_steps)
        if setting.ground**2 < 4 * setting.agents:
            raise ValueError(
                f"food: {setting.ground:g} m of ground have no room for {setting.agents} agents."
            )
        self.areas = areas
        shape = (areas, setting.agents)
        self.field = Field(areas, setting.agents, setting.good_food + setting.bad_food, setting.ground / 2)
        self.agents = Soloists(areas * setting.agents)
        self.heading: Array = np.zeros(shape)
        """[areas, agents], radians from z towards x."""
        self.frozen: Indices = np.zeros(shape, np.intp)
        """[areas, agents], physics steps for which each cannot act yet."""
        self.shooting: NDArray[np.bool_] = np.zeros(shape, np.bool_)
        """[areas, agents], in the last physics step."""
        self._senses = FoodSenses(setting.agents, setting.good_food, setting.bad_food, setting.ground / 2)
        self._move = np.zeros((3, *shape))
        self._shoot = np.zeros(shape, np.bool_)
        self._age = self._score = self._clock = 0
        self._scores: list[float] = []
        self._parameters = Parameters()
        self._random = np.random.default_rng(0)

    def specs(self) -> Mapping[str, BehaviorSpec]:
        """One behaviour: 3 continuous actions (forward, right, turn) and a branch of 2 (shoot)."""
        actions = ActionSpec(continuous_size=3, discrete_branches=(2,))
        return {BEHAVIOR: BehaviorSpec(self._senses.specs(self.setting.senses), actions)}

    def reset(self, random: np.random.Generator, parameters: Parameters) -> Batches:
        """Begin an episode on every field, with new food."""
        self._random, self._parameters = random, parameters
        self.agents.reset()
        self._age = self._score = self._clock = 0
        self._scores.clear()
        self.field.food[:] = self._anywhere(self.field.food.shape)
        self._begin()
        return self._ask()

    def step(self, actions: Actions) -> Batches:
        """Glide for one decision period. Actions: [n, 3], clamped to -1 to 1, and [n, 1]."""
        continuous, discrete = actions[BEHAVIOR]
        self._move[:] = np.clip(continuous, -1, 1).T.reshape(self._move.shape)
        self._shoot[:] = discrete[:, 0].reshape(self._shoot.shape) == 1
        for _ in range(DECISION_PERIOD):
            self._act()
            self._eat()
            self._age += 1
            self._clock += 1
            if self._clock % _SCORE_STEPS == 0:
                self._scores.append(float(self._score))
            if self._age >= self.setting.max_steps:
                self.agents.end(np.arange(self.frozen.size), [self._look()], interrupted=True)
                self._begin()
        return self._ask()

    def statistics(self) -> Sequence[Statistic]:
        """What all agents together have earned since the reset, every 100 physics steps."""
        told: list[Statistic] = [
            (TOTAL_SCORE, score, StatsAggregationMethod.AVERAGE) for score in self._scores
        ]
        self._scores.clear()
        return told

    def _act(self) -> None:
        """One physics step of what the agents do; the frozen ones only glide on."""
        np.maximum(self.frozen - 1, 0, out=self.frozen)
        free = self.frozen == 0
        self.shooting = self._shoot & free
        forward, right, turn = self._move * free
        sine, cosine = np.sin(self.heading), np.cos(self.heading)
        push = np.stack([forward * sine + right * cosine, forward * cosine - right * sine])
        push *= self.setting.speed * np.where(self.shooting, _SHOT_PUSH, 1.0)
        self.field.velocity *= np.where(self.shooting, _SHOT_VELOCITY, 1.0)
        # Positive turns left.
        self.heading -= turn * _TURN
        hit = self.field.hit(self.shooting, self.heading)
        # Whoever is frozen stops shots, and is not frozen for longer.
        self.frozen[hit & free] = _FREEZE_STEPS
        self.field.step(push)

    def _eat(self) -> None:
        """Food that is touched is paid for and lies at a new place."""
        areas, agents, foods = self.field.touched()
        if not len(areas):
            return
        worth = np.where(foods < self.setting.good_food, 1.0, -1.0)
        who = areas * self.setting.agents + agents
        self.agents.earn(np.bincount(who, worth, self.frozen.size).astype(np.float64))
        self._score += int(worth.sum())
        self.field.food[:, areas, foods] = self._anywhere((2, len(areas)))

    def _begin(self) -> None:
        """All agents to new places; the food stays where it is."""
        shape = self.frozen.shape
        self.field.position[:] = self._anywhere(self.field.position.shape)
        self.field.velocity[:] = 0
        scales = [self._parameters.get("agent_scale", 1.0) for _ in range(self.frozen.size)]
        self.field.radius[:] = AGENT_HALF * np.reshape(scales, shape)
        # Whole degrees, as in the original.
        self.heading[:] = np.radians(self._random.integers(360, size=shape))
        self.frozen[:] = 0
        self._move[:] = 0
        self._shoot[:] = self.shooting[:] = False
        self._age = 0

    def _anywhere(self, shape: tuple[int, ...]) -> Array:
        reach = _SPREAD * self.field.half
        return self._random.uniform(-reach, reach, shape)

    def _look(self) -> NDArray[np.float32]:
        """[areas * agents, ...]."""
        field = self.field
        view = View(field.position, field.velocity, self.heading, field.radius, self.frozen > 0, field.food)
        seen = self._senses.look(view, self.setting.senses)
        return seen.reshape(self.frozen.size, *seen.shape[2:])

    def _ask(self) -> Batches:
        (batch,) = self.agents.ask([self._look()])
        return {BEHAVIOR: batch}
