"""Unity's Sorter: touch numbered tiles along the wall of a round room in ascending order.

Rules, numbers and observations are the official scene's; what its description leaves open is said beside the
constants.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from numpy.typing import NDArray

from ...agents import IndependentAgents
from ...options import SceneOptions, SceneWorld, option, senses_option
from ...physics2d import DECISION_PERIOD, GRAVITY, Array, Floats, Indices
from ...sensors import FrameStack
from ...world import Actions, Batches
from .dynamics import AGENT_HALF, GRAVITY_SCALE, TILE_DEPTH, SorterDynamics
from .sensors import FRAMES, PLACE, SorterView, observation_specs, own_body, own_place, tile_rows

BEHAVIOR = "Sorter?team=0"

_TURN = np.radians([0, -4, 4])
_FORWARD = np.array([0, 1, -1])
_RIGHT = np.array([0, 1, -1])
_TIME_PENALTY = -1.0
"""The reward for an episode of the full length in which no tile is touched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SorterOptions(SceneOptions):
    """Sizes and duration."""

    scene: ClassVar[str] = "sorter"

    areas: int = option(8, "how many rooms there are")
    numbers: int = option(20, "tiles bear one from 1 to this one, each another", small=6)
    tiles: int = option(20, "the most of an episode, unless the trainer sets num_tiles", small=4)
    places: int = option(20, "for tiles, along the wall", small=10)
    radius: float = option(20.5, "meters from the middle of the room to the tiles", small=7.0)
    tile_width: float = option(3.5, "meters", small=2.0)
    speed: float = option(2.0, "meters per second that an action adds in each physics step", small=1.0)
    max_steps: int = option(5000, "physics steps of an episode", small=500, decision_period=DECISION_PERIOD)
    senses: str = senses_option(
        entities="a row for each tile, as many as there are",
        flat="the same rows as one vector",
        small="entities",
    )

    def check(self) -> None:
        """Refuse more tiles than numbers or places, and tiles that touch each other or the start."""
        most = min(self.numbers, self.places)
        if self.tiles > most:
            raise ValueError(
                f"sorter: tiles is {self.tiles}; it must be at most {most}, one for each number and place."
            )
        # Between two tiles, and between any and the agent's start, an agent has room.
        step = 2 * np.sin(np.pi / self.places) * (self.radius - TILE_DEPTH / 2)
        if step < self.tile_width + 2 * AGENT_HALF or self.radius < TILE_DEPTH + 4 * AGENT_HALF:
            raise ValueError(
                f"sorter: a radius of {self.radius:g} m has no room for {self.places} places for tiles "
                f"{self.tile_width:g} m wide, an agent's width apart."
            )


class Sorter(SceneWorld[SorterOptions]):
    """Any number of rooms with an agent in each. Omitted options take the values of `size`."""

    options_type = SorterOptions
    parameters_read = ("num_tiles", "gravity")
    gravity = GRAVITY * GRAVITY_SCALE

    def __init__(self, **given: int | float | str) -> None:
        super().__init__(**given)
        options, areas = self.options, self.areas
        self.dynamics: SorterDynamics = SorterDynamics(
            areas, options.radius, options.tile_width, options.places
        )
        self.agents = IndependentAgents(areas)
        self._agent_sets = [self.agents]
        self.heading: Array = np.zeros(areas)
        """[areas], radians from z towards x."""
        self.numbers: Indices = np.zeros((areas, options.numbers), np.intp)
        """[areas, numbers], of the tiles that are there, ascending; then zeros."""
        self.places: Indices = np.full((areas, options.numbers), -1, np.intp)
        """[areas, numbers], where these tiles are; -1 for no tile."""
        self.visited: Indices = np.zeros(areas, np.intp)
        """[areas], how many tiles were visited: the first so many."""
        self._count = np.zeros(areas, np.intp)
        self._push = np.zeros((2, areas))
        self._turn = np.zeros(areas)
        self._action: NDArray[np.int32] = np.zeros((areas, 3), np.int32)
        self._frames = FrameStack(areas, 1, FRAMES, PLACE)

    def specs(self) -> Mapping[str, BehaviorSpec]:
        """One behavior of three branches of 3: forward and back, right and left, turn left and right."""
        observations = observation_specs(self.options.numbers, flat=self.options.senses == "flat")
        return {BEHAVIOR: BehaviorSpec(observations, ActionSpec.create_discrete((3, 3, 3)))}

    def step(self, actions: Actions) -> Batches:
        """Glide for one decision period. Actions: three of 3 for each agent."""
        self._apply_gravity()
        self._action[:] = actions[BEHAVIOR][1]
        for _ in range(DECISION_PERIOD):
            self._age += 1
            self.agents.add_reward(_TIME_PENALTY / self.options.max_steps)
            rooms, tiles = self.dynamics.step(self._act(), self.places)
            if len(rooms):
                self._touch(rooms, tiles)
            late = self._age >= self.options.max_steps
            if late.any():
                (which,) = np.nonzero(late)
                self._end_episodes(which, interrupted=True)
        return self._request_decisions()

    def _act(self) -> Array:
        """One physics step's turns, and what is added to the velocities: [2, areas]."""
        forward, right, turn = self._action.T
        # Forward as the agent looks before it turns.
        sine, cosine = np.sin(self.heading), np.cos(self.heading)
        ahead = np.where(right == 0, _FORWARD[forward], 0) * self.options.speed
        aside = _RIGHT[right] * self.options.speed
        self.heading += _TURN[turn]
        return np.stack([ahead * sine + aside * cosine, ahead * cosine - aside * sine])

    def _touch(self, rooms: Indices, tiles: Indices) -> None:
        """The next tile pays. One that is not its turn yet costs and ends the episode, as the last does."""
        fresh = tiles >= self.visited[rooms]
        rooms, tiles = rooms[fresh], tiles[fresh]
        if not len(rooms):
            return
        right = tiles == self.visited[rooms]
        earned = np.zeros(self.areas)
        earned[rooms] = np.where(right, 1, -1)
        self.agents.add_reward(earned)
        self.visited[rooms[right]] += 1
        over = ~right | (self.visited[rooms] == self._count[rooms])
        if over.any():
            self._end_episodes(rooms[over], interrupted=False)

    def _end_episodes(self, which: Indices, interrupted: bool) -> None:
        view = self._view(which)
        place = self._frames.peek(which, own_place(view)[:, None])[:, 0]
        self.agents.end_episodes(which, self._sense(view, place), interrupted)
        self._start_episodes(which)

    def _start_episodes(self, which: Indices) -> None:
        """New tiles; the agent back in the center, where its heading stays."""
        options, random = self.options, self._random
        count = random.integers(1, self._most_tiles(which) + 1)
        there = np.arange(options.numbers) < count[:, None]
        chosen = random.random((len(which), options.numbers)).argsort(axis=1) + 1
        self.numbers[which] = np.sort(np.where(there, chosen, options.numbers + 1), axis=1) * there
        spread = random.random((len(which), options.places)).argsort(axis=1)
        tiles = min(options.numbers, options.places)
        self.places[which, :tiles] = np.where(there[:, :tiles], spread[:, :tiles], -1)
        self.visited[which] = 0
        self._count[which] = count
        self._age[which] = 0
        self._action[which] = 0
        self._frames.clear(which)
        self.dynamics.stop(which)

    def _most_tiles(self, which: Indices) -> Indices:
        """[k]: what the trainer sets is read for each episode.

        Raises:
            ValueError: It is less than 1, or more than there is room for.
        """
        most = np.array([int(self._parameters.get("num_tiles", self.options.tiles)) for _ in which], np.intp)
        highest = min(self.options.numbers, self.options.places)
        if most.min() < 1 or most.max() > highest:
            raise ValueError(
                f"sorter: the environment parameter num_tiles is {most.min()} to {most.max()}; it must be "
                f"from 1 to {highest}."
            )
        return most

    def _request_decisions(self) -> Batches:
        view = self._view(np.arange(self.areas))
        place = self._frames.push(own_place(view)[:, None])[:, 0]
        (batch,) = self.agents.request_decisions(self._sense(view, place))
        return {BEHAVIOR: batch}

    def _view(self, which: Indices) -> SorterView:
        return SorterView(
            position=self.dynamics.position[:, which],
            velocity=self.dynamics.velocity[:, which],
            heading=self.heading[which],
            numbers=self.numbers[which],
            tiles=self.dynamics.tiles()[:, self.places[which]],
            visited=self.visited[which],
        )

    def _sense(self, view: SorterView, place: Floats) -> list[Floats]:
        tiles = tile_rows(view)
        if self.options.senses == "flat":
            tiles = tiles.reshape(len(tiles), -1)
        return [tiles, own_body(view), place]
