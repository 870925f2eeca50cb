"""Unity's FoodCollector: agents gather good food, avoid bad food and can freeze each other.

Rules, numbers and observations are the official scene's; its agents have no group and no common reward.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlagents_envs.base_env import ActionSpec, BehaviorSpec, ObservationSpec
from numpy.typing import NDArray

from ..options import SceneOptions, SceneWorld, option, senses_option
from ..parts.agents import IndependentAgents
from ..parts.physics2d import DECISION_PERIOD, FRICTION, GRAVITY, TIME_STEP, Array, Flags, Floats, Indices
from ..parts.sensors import GridSensor, image_spec, others, own_motion, seen_from, vector_spec
from ..world import Actions, Batches, Parameters, Statistic, take_averages

AGENT_HALF = 0.5
FOOD_RADIUS = 0.75
LASER_LENGTH = 25.0

_LASER_RADIUS = 2.0
_DRAG = 0.5
_TOUCH = 0.02
"""Meters: colliders' contact offsets."""
_FAST, _SLOWING = 5.0, 0.95
"""Above so many meters per second, velocities are multiplied by this in each physics step."""
_TINY = 1e-9


class FoodDynamics:
    """A level, walled field in each area, with m agents and f foods."""

    def __init__(self, areas: int, agents: int, foods: int, half: float) -> None:
        """`half`: half the edge of the field."""
        self.half = half
        self.position: Array = np.zeros((2, areas, agents))
        self.velocity: Array = np.zeros((2, areas, agents))
        self.radius: Array = np.full((areas, agents), AGENT_HALF)
        """[areas, agents]; the original's agents are boxes that never turn over."""
        self.food: Array = np.zeros((2, areas, foods))
        first, second = np.triu_indices(agents, 1)
        self._first, self._second = first, second

    def step(self, push: Array) -> None:
        """One physics step. `push`: [2, areas, m], what is added to the velocities."""
        velocity = self.velocity
        velocity *= np.where(np.hypot(*velocity) > _FAST, _SLOWING, 1.0)
        velocity += push
        velocity *= 1 - _DRAG * TIME_STEP
        grip = FRICTION * GRAVITY * TIME_STEP
        velocity *= 1 - grip / np.maximum(np.hypot(*velocity), grip + _TINY)
        self.position += velocity * TIME_STEP
        if len(self._first):
            self._collide()
        limit = self.half - self.radius
        inside = np.clip(self.position, -limit, limit)
        velocity *= inside == self.position
        self.position[:] = inside

    def touched(self) -> tuple[Indices, Indices, Indices]:
        """The areas, agents and foods [k] of all touches; each food once, for the nearest agent."""
        distance = np.hypot(*(self.position[..., None] - self.food[:, :, None])) - self.radius[..., None]
        nearest = distance.argmin(axis=1)
        reached = distance.min(axis=1) < FOOD_RADIUS + _TOUCH
        areas, foods = np.nonzero(reached)
        return areas, nearest[areas, foods], foods

    def hit(self, shooting: Flags, heading: Array) -> Flags:
        """[areas, m], which agents are the first body that a shot hits; food stops shots.

        Args:
            shooting, heading: [areas, m].
        """
        areas, shooters = np.nonzero(shooting)
        agents = self.radius.shape[1]
        met = np.zeros(shooting.shape, np.bool_)
        if not len(areas):
            return met
        things = np.concatenate([self.position[:, areas], self.food[:, areas]], axis=2)
        away = things - self.position[:, areas, shooters, None]
        reach = np.full(away.shape[1:], FOOD_RADIUS + _LASER_RADIUS)
        reach[:, :agents] = self.radius[areas] + _LASER_RADIUS
        angle = heading[areas, shooters, None]
        along = away[0] * np.sin(angle) + away[1] * np.cos(angle)
        square = reach**2 - ((away**2).sum(axis=0) - along**2)
        way = along - np.sqrt(np.maximum(square, 0))
        # What the thrown sphere is in already when it starts does not count, as in the original.
        way[(square <= 0) | (way <= 0) | (way > LASER_LENGTH)] = np.inf
        first = way.argmin(axis=1)
        (hits,) = np.nonzero(np.isfinite(way.min(axis=1)) & (first < agents))
        met[areas[hits], first[hits]] = True
        return met

    def _collide(self) -> None:
        """Agents that touch move apart, and do not go on into each other."""
        first, second = self._first, self._second
        apart = self.position[:, :, first] - self.position[:, :, second]
        distance = np.hypot(*apart)
        depth = self.radius[:, first] + self.radius[:, second] - distance
        areas, pair = np.nonzero(depth > 0)
        if not len(areas):
            return
        one, other = first[pair], second[pair]
        # Two in the very same place part along x.
        normal = apart[:, areas, pair] / np.maximum(distance[areas, pair], _TINY)
        normal[0, distance[areas, pair] < _TINY] = 1
        shift = normal * depth[areas, pair] / 2
        approach = ((self.velocity[:, areas, one] - self.velocity[:, areas, other]) * normal).sum(axis=0)
        change = normal * np.maximum(-approach, 0) / 2
        for axis in (0, 1):
            np.add.at(self.position[axis], (areas, one), shift[axis])
            np.add.at(self.position[axis], (areas, other), -shift[axis])
            np.add.at(self.velocity[axis], (areas, one), change[axis])
            np.add.at(self.velocity[axis], (areas, other), -change[axis])


TAGS = ("food", "agent", "wall", "badFood", "frozenAgent")
CELLS = 40
"""Along each edge of the grid, of 1 m."""
NEAREST = 3
"""Foods of either kind in the vector observation."""

_FOOD, _AGENT, _WALL, _BAD, _FROZEN = range(5)
_WALL_THICKNESS = 1.0
_PLACES = 7 + 4 * NEAREST + 3


@dataclass(frozen=True, slots=True)
class FoodView:
    """All areas [k] of m agents and f foods at a moment; positions are [2, k, ...]."""

    position: Array
    velocity: Array
    heading: Array
    """[k, m]."""
    radius: Array
    """[k, m]."""
    frozen: Flags
    """[k, m]."""
    food: Array
    """[2, k, f], the good before the bad."""


class FoodSensors:
    """The sensors, set up with what is the same in every area and episode."""

    def __init__(self, agents: int, good: int, bad: int, half: float) -> None:
        """`good`, `bad`: foods of an area. `half`: half the edge of the field."""
        self._agents, self._good, self._half = agents, good, half
        self._others = others(agents)
        self._grid = GridSensor(CELLS, ahead=0.0)
        self._tags = np.array([_AGENT] * agents + [_FROZEN] * agents + [_FOOD] * good + [_BAD] * bad)

    def specs(self, senses: str) -> list[ObservationSpec]:
        """A grid, or one vector of the places of what is near."""
        if senses == "vector":
            return [vector_spec(_PLACES)]
        return [image_spec((len(TAGS), CELLS, CELLS), "GridSensor")]

    def observe(self, view: FoodView, senses: str) -> Floats:
        """What every agent sees: [k, m, ...]."""
        return self.places(view) if senses == "vector" else self.grid(view)

    def grid(self, view: FoodView) -> Floats:
        """[k, m, 5, 40, 40] of 0 and 1: the agent in the center, the first row farthest ahead."""
        areas, agents = view.heading.shape
        squares = np.zeros((4, areas, len(self._tags)))
        for start in (0, agents):
            squares[:2, :, start : start + agents] = view.position
            squares[2, :, start : start + agents] = -view.heading
            squares[3, :, start : start + agents] = view.radius
        squares[:2, :, 2 * agents :], squares[3, :, 2 * agents :] = view.food, FOOD_RADIUS
        present = np.ones((areas, agents, len(self._tags)), np.bool_)
        mates = ~np.eye(agents, dtype=np.bool_)
        present[:, :, :agents] = mates & ~view.frozen[:, None]
        present[:, :, agents : 2 * agents] = mates & view.frozen[:, None]
        channels = np.zeros((areas, agents, len(TAGS), CELLS, CELLS), np.float32)
        x, z = self._grid.middles(view.position, view.heading)
        out = np.maximum(np.abs(x), np.abs(z)) - self._half
        channels[:, :, _WALL] = (out > -0.5) & (out < _WALL_THICKNESS + 0.5)
        self._grid.paint(channels, view.position, view.heading, squares, present, self._tags)
        return channels

    def places(self, view: FoodView) -> Floats:
        """What is near, from each agent's own eyes: [k, m, 22].

        Place (2), heading (sine, cosine), velocity to the right and ahead / 4 (2), frozen (1); right and
        ahead of the nearest three foods (6) and bad foods (6); right and ahead of the nearest teammate and
        whether it is frozen (3). Ways are shares of half the field; what there is not is 0.
        """
        obs = np.zeros((*view.heading.shape, _PLACES), np.float32)
        obs[..., :6] = own_motion(view.position / self._half, view.heading, view.velocity)
        obs[..., 6] = view.frozen
        food = seen_from(view.position, view.heading, view.food) / self._half
        for start, kind in ((7, food[..., : self._good]), (7 + 2 * NEAREST, food[..., self._good :])):
            order = np.hypot(*kind).argsort(axis=2)[..., :NEAREST]
            near = np.take_along_axis(kind, order[None], axis=3)
            end = start + 2 * order.shape[2]
            obs[..., start:end:2], obs[..., start + 1 : end : 2] = near
        if self._agents > 1:
            mates = seen_from(view.position, view.heading, view.position) / self._half
            mates = mates[:, :, np.arange(self._agents)[:, None], self._others]
            nearest = np.hypot(*mates).argmin(axis=2)[..., None]
            obs[..., -3:-1] = np.moveaxis(np.take_along_axis(mates, nearest[None], axis=3)[..., 0], 0, -1)
            frozen = view.frozen[:, self._others]
            obs[..., -1] = np.take_along_axis(frozen, nearest, axis=2)[..., 0]
        return obs


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
