"""Unity's Sorter: touch numbered tiles along the wall of a round room in ascending order.

Rules, numbers and observations are the official scene's; what its description leaves open is said beside the
constants.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlagents_envs.base_env import (
    ActionSpec,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)
from numpy.typing import NDArray

from ..options import SceneOptions, SceneWorld, option, senses_option
from ..parts.agents import IndependentAgents
from ..parts.physics2d import DECISION_PERIOD, FRICTION, GRAVITY, TIME_STEP, Array, Floats, Indices
from ..parts.sensors import FrameStack, vector_spec
from ..world import Actions, Batches

FRAMES = 2
PLACE = 4
"""Values per frame for an agent's position and heading."""

_WAY_AND_VISIT = 3
"""Numbers that follow a tile's marks in its row: the way to it along x and z, and whether it was visited."""
_SCALE = 20.0
"""Places are observed in units of this many meters."""


@dataclass(frozen=True, slots=True)
class SorterView:
    """Some rooms [k], each with an agent, at a moment."""

    position: Array
    """[2, k], x and z."""
    velocity: Array
    """[2, k]."""
    heading: Array
    """[k], radians from z towards x."""
    numbers: Indices
    """[k, n], of the tiles, ascending; 0 for no tile. The highest is n, 20 in the original."""
    tiles: Array
    """[2, k, n], where they are."""
    visited: Indices
    """[k], how many of them were visited: the first so many."""


def observation_specs(highest: int, flat: bool) -> list[ObservationSpec]:
    """Tiles, own motion, place. `highest`: tile's number. `flat`: tiles as one vector and not as entities."""
    row = highest + _WAY_AND_VISIT
    tiles = vector_spec(highest * row, "BufferSensor")
    if not flat:
        any_number = (DimensionProperty.VARIABLE_SIZE, DimensionProperty.NONE)
        tiles = ObservationSpec((highest, row), any_number, ObservationType.DEFAULT, "BufferSensor")
    place = f"StackingSensor_size{FRAMES}_VectorSensor_size{PLACE}"
    return [tiles, vector_spec(10, "PhysicsBodySensor:Agent"), vector_spec(PLACE * FRAMES, place)]


def tile_rows(view: SorterView) -> Floats:
    """A row for each tile, in ascending order of their numbers, then zeros: [k, n, n + 3].

    A 1 at the tile's number, its way from the agent along x and z, and whether it was visited. The mark of
    tile n is lost: the way takes its place, as in the original.
    """
    highest = view.numbers.shape[1]
    rows = np.zeros((*view.numbers.shape, highest + _WAY_AND_VISIT), np.float32)
    room, tile = np.nonzero(view.numbers)
    rows[room, tile, view.numbers[room, tile]] = 1
    away = (view.tiles[:, room, tile] - view.position[:, room]) / _SCALE
    rows[room, tile, highest], rows[room, tile, highest + 1] = away
    rows[room, tile, highest + 2] = tile < view.visited[room]
    return rows


def own_body(view: SorterView) -> Floats:
    """Unity's rigid-body sensor as it is set up here: [k, 10].

    It reports a body's pose and velocity in that body's own frame: no offset (3), no rotation (4), and the
    velocity to the right, up, and ahead. Unity's own brain for this scene fits nothing else.
    """
    obs = np.zeros((len(view.heading), 10), np.float32)
    obs[:, 6] = 1
    sine, cosine = np.sin(view.heading), np.cos(view.heading)
    x, z = view.velocity
    obs[:, 7], obs[:, 9] = x * cosine - z * sine, x * sine + z * cosine
    return obs


def own_place(view: SorterView) -> Floats:
    """Where an agent is, and the direction in which it looks: [k, 4]."""
    x, z = view.position / _SCALE
    return np.stack([x, z, np.sin(view.heading), np.cos(view.heading)], axis=1).astype(np.float32)


AGENT_HALF = 0.5
"""The original's agent is a box of 1 m; here it is round, so that its heading does not matter to a touch."""
AGENT_DRAG = 4.0
GRAVITY_SCALE = 2.5
TILE_DEPTH = 1.52
WALL_INSIDE = 0.5
"""The wall's inner face is nearer to the center than the tiles' by this; the original's mesh is not known."""

_TOUCH = 0.02
"""Meters: colliders' contact offsets."""
_TINY = 1e-9


class SorterDynamics:
    """One agent in each of n rooms. Positions are [2, n], x and z; angles turn from z to x."""

    def __init__(self, rooms: int, radius: float, tile_width: float, places: int) -> None:
        """`radius`: of the circle on which the tiles' centers are. `places`: for tiles along it."""
        self.position: Array = np.zeros((2, rooms))
        self.velocity: Array = np.zeros((2, rooms))
        self.gravity = GRAVITY * GRAVITY_SCALE
        self.tile_angle: Array = np.arange(places) * 2 * np.pi / places
        """[places], of each place for a tile."""
        self._radius, self._half_width = radius, tile_width / 2
        self._limit = radius - WALL_INSIDE - AGENT_HALF
        self._near = radius - TILE_DEPTH / 2 - 2 * AGENT_HALF

    def tiles(self) -> Array:
        """The centers of all places, [2, places]."""
        return self._radius * np.stack([np.sin(self.tile_angle), np.cos(self.tile_angle)])

    def stop(self, which: Indices) -> None:
        """Back to the center, at rest."""
        self.position[:, which] = 0
        self.velocity[:, which] = 0

    def step(self, push: Array, places: Indices) -> tuple[Indices, Indices]:
        """One physics step.

        Args:
            push: [2, n], what is added to the velocities.
            places: [n, t], where the rooms' tiles stand; -1 for no tile.

        Returns:
            Which rooms' agents touch a tile, and which of the t tiles: [k] each, one for each agent.
        """
        velocity = self.velocity
        velocity += push
        velocity *= 1 - AGENT_DRAG * TIME_STEP
        grip = FRICTION * self.gravity * TIME_STEP
        velocity *= 1 - grip / np.maximum(np.hypot(*velocity), grip + _TINY)
        self.position += velocity * TIME_STEP
        (rooms,) = np.nonzero(np.hypot(*self.position) > self._near)
        if not len(rooms):
            return rooms, rooms
        touched, tiles = self._meet_tiles(rooms, places[rooms])
        self._meet_wall(rooms)
        return touched, tiles

    def _meet_tiles(self, rooms: Indices, places: Indices) -> tuple[Indices, Indices]:
        sine, cosine = np.sin(self.tile_angle)[places], np.cos(self.tile_angle)[places]
        x, z = self.position[:, rooms, None]
        # In each tile's own axes: along the wall, and away from the room's center.
        along = x * cosine - z * sine
        out = x * sine + z * cosine - self._radius
        gap_along = along - np.clip(along, -self._half_width, self._half_width)
        gap_out = out - np.clip(out, -TILE_DEPTH / 2, TILE_DEPTH / 2)
        distance = np.where(places < 0, np.inf, np.hypot(gap_along, gap_out))
        rows = np.arange(len(rooms))
        nearest = distance.argmin(axis=1)
        (hit,) = np.nonzero(distance[rows, nearest] < AGENT_HALF + _TOUCH)
        tile = nearest[hit]
        apart = distance[hit, tile]
        gap_along, gap_out = gap_along[hit, tile], gap_out[hit, tile]
        # Deep inside, the way out is towards the center of the room.
        inside = apart < _TINY
        gap_out = np.where(inside, -1, gap_out) / np.where(inside, 1, apart)
        gap_along = np.where(inside, 0, gap_along) / np.where(inside, 1, apart)
        sine, cosine = sine[hit, tile], cosine[hit, tile]
        normal = np.stack([gap_along * cosine + gap_out * sine, gap_out * cosine - gap_along * sine])
        self._bounce(rooms[hit], normal, AGENT_HALF - apart)
        return rooms[hit], tile

    def _meet_wall(self, rooms: Indices) -> None:
        distance = np.hypot(*self.position[:, rooms])
        (hit,) = np.nonzero(distance > self._limit)
        normal = -self.position[:, rooms[hit]] / distance[hit]
        self._bounce(rooms[hit], normal, distance[hit] - self._limit)

    def _bounce(self, rooms: Indices, normal: Array, depth: Array) -> None:
        """Agents that are `depth` in something leave it along `normal`, and rub against it."""
        self.position[:, rooms] += normal * np.maximum(depth, 0)
        velocity = self.velocity[:, rooms]
        towards = np.minimum((velocity * normal).sum(axis=0), 0)
        velocity -= normal * towards
        speed = np.hypot(*velocity)
        velocity *= 1 - np.minimum(-FRICTION * towards, speed) / np.maximum(speed, _TINY)
        self.velocity[:, rooms] = velocity


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
