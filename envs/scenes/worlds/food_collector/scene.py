"""Unity's FoodCollector: agents gather good food, avoid bad food and can freeze each other.

Rules, numbers and observations are the official scene's; its agents have no group and no common reward.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from numpy.typing import NDArray

from ...agents import IndependentAgents
from ...options import SceneOptions, SceneWorld, option, senses_option
from ...physics2d import DECISION_PERIOD, TIME_STEP, Array, Indices
from ...world import Actions, Batches, Parameters, Statistic, take_averages
from .dynamics import AGENT_HALF, FoodDynamics
from .sensors import FoodSensors, FoodView

BEHAVIOR = "FoodCollector?team=0"
TOTAL_SCORE = "TotalScore"
"""The statistic of what all agents together have earned since the environment's reset."""

_TURN = np.radians(6)
_FREEZE_STEPS = round(4 / TIME_STEP)
_SHOT_PUSH, _SHOT_VELOCITY = 0.5, 0.75
"""What shooting leaves of an agent's motion."""
_SPREAD = 0.9
"""Agents and food start within this share of the field's half edge: 45 m."""
_SCORE_STEPS = 100
"""Physics steps between two statistics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoodCollectorOptions(SceneOptions):
    """Sizes, quantities and duration."""

    scene: ClassVar[str] = "food"

    areas: int = option(4, "how many fields there are")
    agents: int = option(5, "of a field")
    ground: float = option(100.0, "meters along each edge of a field", small=24.0)
    good_food: int = option(25, "foods of a field that are worth 1", small=10)
    bad_food: int = option(25, "foods of a field that cost 1", small=10)
    speed: float = option(2.0, "meters per second that a full action adds in each physics step")
    max_steps: int = option(5000, "physics steps of an episode", small=1000, decision_period=DECISION_PERIOD)
    senses: str = senses_option(grid="a grid around the agent", vector="places of what is near")

    def check(self) -> None:
        """Refuse fields without room for the agents."""
        if self.ground**2 < 4 * self.agents:
            raise ValueError(f"food: {self.ground:g} m of ground have no room for {self.agents} agents.")


class Food(SceneWorld[FoodCollectorOptions]):
    """Any number of fields with some agents on each. Omitted options take the values of `size`."""

    options_type = FoodCollectorOptions
    parameters_read = ("agent_scale", "laser_length")
    other_names: ClassVar = {"GridFoodCollector": "FoodCollector"}

    def __init__(self, **given: int | float | str) -> None:
        super().__init__(**given)
        options, areas = self.options, self.areas
        shape = (areas, options.agents)
        self.dynamics: FoodDynamics = FoodDynamics(
            areas, options.agents, options.good_food + options.bad_food, options.ground / 2
        )
        self.agents = IndependentAgents(areas * options.agents)
        self._agent_sets = [self.agents]
        self.heading: Array = np.zeros(shape)
        """[areas, agents], radians from z towards x."""
        self.frozen: Indices = np.zeros(shape, np.intp)
        """[areas, agents], physics steps for which each cannot act yet."""
        self.shooting: NDArray[np.bool_] = np.zeros(shape, np.bool_)
        """[areas, agents], in the last physics step."""
        self._sensors = FoodSensors(options.agents, options.good_food, options.bad_food, options.ground / 2)
        self._move = np.zeros((3, *shape))
        self._shoot = np.zeros(shape, np.bool_)
        self._score = self._clock = 0
        self._scores: list[float] = []

    def specs(self) -> Mapping[str, BehaviorSpec]:
        """One behavior: 3 continuous actions (forward, right, turn) and a branch of 2 (shoot)."""
        actions = ActionSpec(continuous_size=3, discrete_branches=(2,))
        return {BEHAVIOR: BehaviorSpec(self._sensors.specs(self.options.senses), actions)}

    def reset(self, random: np.random.Generator, parameters: Parameters) -> Batches:
        """Start an episode on every field, with new food."""
        self._random, self._score, self._clock = random, 0, 0
        self._scores.clear()
        self.dynamics.food[:] = self._anywhere(self.dynamics.food.shape)
        return super().reset(random, parameters)

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
            if self._age[0] >= self.options.max_steps:
                self.agents.end_episodes(np.arange(self.frozen.size), [self._observe()], interrupted=True)
                self._start_episodes(np.arange(self.areas))
        return self._request_decisions()

    def statistics(self) -> Sequence[Statistic]:
        """What all agents together have earned since the reset, every 100 physics steps."""
        return take_averages(TOTAL_SCORE, self._scores)

    def _act(self) -> None:
        """One physics step of what the agents do; the frozen ones only glide on."""
        np.maximum(self.frozen - 1, 0, out=self.frozen)
        free = self.frozen == 0
        self.shooting = self._shoot & free
        forward, right, turn = self._move * free
        sine, cosine = np.sin(self.heading), np.cos(self.heading)
        push = np.stack([forward * sine + right * cosine, forward * cosine - right * sine])
        push *= self.options.speed * np.where(self.shooting, _SHOT_PUSH, 1.0)
        self.dynamics.velocity *= np.where(self.shooting, _SHOT_VELOCITY, 1.0)
        # Positive turns left.
        self.heading -= turn * _TURN
        hit = self.dynamics.hit(self.shooting, self.heading)
        # Frozen agents stop shots, which do not freeze them for longer.
        self.frozen[hit & free] = _FREEZE_STEPS
        self.dynamics.step(push)

    def _eat(self) -> None:
        """Food that is touched is paid for and lies at a new place."""
        areas, agents, foods = self.dynamics.touched()
        if not len(areas):
            return
        worth = np.where(foods < self.options.good_food, 1.0, -1.0)
        who = areas * self.options.agents + agents
        self.agents.add_reward(np.bincount(who, worth, self.frozen.size).astype(np.float64))
        self._score += int(worth.sum())
        self.dynamics.food[:, areas, foods] = self._anywhere((2, len(areas)))

    def _start_episodes(self, which: Indices) -> None:
        """All agents of all fields to new places; the food stays where it is."""
        shape = self.frozen.shape
        self.dynamics.position[:] = self._anywhere(self.dynamics.position.shape)
        self.dynamics.velocity[:] = 0
        scales = [self._parameters.get("agent_scale", 1.0) for _ in range(self.frozen.size)]
        self.dynamics.radius[:] = AGENT_HALF * np.reshape(scales, shape)
        # Whole degrees, as in the original.
        self.heading[:] = np.radians(self._random.integers(360, size=shape))
        self.frozen[:] = 0
        self._move[:] = 0
        self._shoot[:] = self.shooting[:] = False
        self._age[which] = 0

    def _anywhere(self, shape: tuple[int, ...]) -> Array:
        reach = _SPREAD * self.dynamics.half
        return self._random.uniform(-reach, reach, shape)

    def _observe(self) -> NDArray[np.float32]:
        """[areas * agents, ...]."""
        field = self.dynamics
        view = FoodView(
            field.position, field.velocity, self.heading, field.radius, self.frozen > 0, field.food
        )
        seen = self._sensors.observe(view, self.options.senses)
        return seen.reshape(self.frozen.size, *seen.shape[2:])

    def _request_decisions(self) -> Batches:
        (batch,) = self.agents.request_decisions([self._observe()])
        return {BEHAVIOR: batch}
