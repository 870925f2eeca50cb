"""Turn-based games as a BaseEnv: PettingZoo's environments whose agents act one at a time (AECEnv).

The seats of a turn-based game: whose behaviour each one is, and what it sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from mlagents_envs.base_env import (
    BehaviorMapping,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)
from mlagents_envs.exception import UnityEnvironmentException
from numpy.typing import NDArray

from ...base import EngineStatistics, ObsArray, StatsAggregationMethod, behavior_id
from ...errors import UnsupportedSpaceError
from ...images import Images
from ..action_spaces import actor, forbidden, given_mask
from ..base import InProcessEnvironment
from ..calls import seed_of_copy
from ..gymnasium.environment import stacked
from ..spaces import Sensor, sensors
from .adapter import Behavior, Report, decision_steps, misfit, terminal_steps
from .turns import HELP, AECEnv, EpisodeReport, Turn, TurnLoop

AVERAGE = StatsAggregationMethod.AVERAGE


class _Area:
    """One copy of the game, and the lives of those who sit there."""

    def __init__(self, loop: TurnLoop, index: int) -> None:
        self.loop = loop
        self.index = index
        self.ids: dict[int, int] = {}
        """By seat, the agent's id for one life."""
        self.seen: dict[int, list[ObsArray]] = {}
        """By seat, the stacked observation of its last turn."""


class TurnBasedEnvironment(InProcessEnvironment):
    """Any number of copies of a turn-based game, stepped one after the other in the caller's thread.

    With every step one seat of each copy acts. Its transition runs from its turn to its next turn, or to its
    end, and earns everything that it got in between (see `TurnLoop`). A seat that never acted is not told of.
    """

    def __init__(
        self,
        make: Callable[[], AECEnv],
        seed: int | None = None,
        areas: int = 1,
        *,
        self_play: bool | None = False,
        stack_size: int = 1,
        max_steps_per_episode: int = 0,
        boards: bool = False,
        images: Images = "float32",
    ) -> None:
        """Make the copies.

        Args:
            make: makes one.
            seed: of the first area's chance; the others' are drawn from it. None: another one each time.
            areas: how many copies.
            self_play: all seats are teams of one behaviour, which one policy plays; each observes by a sensor
                named `seat` which seat is its own, as a one-hot vector. Else every seat is a behaviour. None:
                if all seats have the same spaces.
            stack_size: so many observations of a seat's own turns are shown together, the newest last; zeros
                before its first.
            max_steps_per_episode: turns of all seats after which an episode is interrupted; 0: never.
            boards: observations of rows x columns x planes are images [planes, rows, columns], which
                convolutions read; else all numbers in a row.
            images: what images are given out as: 0 to 1, or for a trainer the bytes.

        Raises:
            UnityEnvironmentException: a number is out of range, or one policy cannot play all seats.
            GameFaultError: the game breaks the rules of PettingZoo.
        """
        for name, value, least in (
            ("areas", areas, 1), ("stack_size", stack_size, 1), ("max_steps_per_episode",
            max_steps_per_episode, 0),
        ):  # fmt: skip
            if value < least:
                raise UnityEnvironmentException(
                    f"A turn-based environment got {name} {value}; expected at least {least}."
                )
        super().__init__()
        self._areas = [
            _Area(TurnLoop(make(), seed_of_copy(seed, index), max_steps_per_episode), index)
            for index in range(areas)
        ]
        game = self._areas[0].loop.game
        self.seats: list[Seat] = make_seats(game, self_play, stack_size, images, boards=boards)
        self._names = [seat.behavior.name for seat in self.seats]
        self._next_id = 0
        self._waiting: dict[str, list[Report]] = {}
        self._ended: dict[str, list[Report]] = {}
        self._statistics: dict[str, list[tuple[float, StatsAggregationMethod]]] = {}

    @property
    def num_agents(self) -> int:
        """How many seats a game has."""
        return len(self.seats)

    @property
    def behavior_specs(self) -> Mapping[str, BehaviorSpec]:
        """The behaviours by name: `player?team=0`, `player?team=1` for the seats of one policy."""
        specs = {seat.behavior.name: seat.behavior.spec for seat in self.seats}
        return BehaviorMapping(specs)  # type: ignore[no-any-return]

    def reset(self) -> None:
        """Begin a new episode in every area. The lives that are cut thereby are not reported.

        Raises:
            GameFaultError: the game breaks the rules of PettingZoo.
        """
        self._begin_step()
        for area in self._areas:
            area.ids.clear()
            area.seen.clear()
            self._report(area, area.loop.begin())
        self._finish_step()

    def step(self) -> None:
        """Let those act whose turn it is; those without actions get zeros. The first step is a reset.

        Raises:
            GameFaultError: the game breaks the rules of PettingZoo.
        """
        if not self._steps:
            self.reset()
            return
        actions = self._decoded()
        self._begin_step()
        for area, action in zip(self._areas, actions):
            turns, episode = area.loop.act(action)
            for turn in turns[:-1]:
                self._report(area, turn)
            if episode is not None:
                area.ids.clear()
                area.seen.clear()
                self._tell(episode)
            self._report(area, turns[-1])
        self._finish_step()

    def statistics(self) -> EngineStatistics:
        """Of episodes that have ended since the last call: reward and turns of each seat, and all turns."""
        told, self._statistics = self._statistics, {}
        return told

    def draw(self) -> NDArray[np.uint8]:
        """A picture of the first area, [height, width, 3]; its render mode is to be `rgb_array`."""
        picture: NDArray[np.uint8] = np.asarray(self._areas[0].loop.game.render(), np.uint8)
        return picture

    def close(self) -> None:
        """Close every copy."""
        for area in self._areas:
            area.loop.game.close()

    def _decoded(self) -> list[Any]:
        """By area, what was decided in the form of the action space."""
        chosen: list[Any] = [None] * len(self._areas)
        behaviors = {seat.behavior.name: seat.behavior for seat in self.seats}
        for name, reports in self._waiting.items():
            if reports:
                behavior = behaviors[name]
                given = self._actions.get(name) or behavior.spec.action_spec.empty_action(len(reports))
                for report, action in zip(reports, behavior.actor.decode(given.continuous, given.discrete)):
                    chosen[report.area] = action
        return chosen

    def _begin_step(self) -> None:
        self._actions.clear()
        self._waiting = {name: [] for name in self._names}
        self._ended = {name: [] for name in self._names}

    def _finish_step(self) -> None:
        for seat in self.seats:
            name = seat.behavior.name
            self._steps[name] = (
                decision_steps(seat.behavior, self._waiting[name]),
                terminal_steps(seat.behavior, self._ended[name]),
            )

    def _report(self, area: _Area, turn: Turn) -> None:
        seat = self.seats[turn.seat]
        branches = seat.behavior.spec.action_spec.discrete_branches
        mask = given_mask(turn.observation, turn.info) if branches and not turn.ended else None
        try:
            seen = seat.look(turn.observation, area.seen.get(turn.seat))
            closed = None if mask is None else forbidden(mask, branches)
        except ValueError as error:
            raise misfit(area.loop.game, seat.agent, error, HELP) from error
        if turn.seat not in area.ids:
            area.ids[turn.seat] = self._next_id
            self._next_id += 1
        number = area.ids[turn.seat]
        report = Report(area.index, seat.agent, number, seen, turn.reward, turn.interrupted, closed)
        (self._ended if turn.ended else self._waiting)[seat.behavior.name].append(report)
        area.seen[turn.seat] = seen
        if turn.ended:
            del area.ids[turn.seat], area.seen[turn.seat]

    def _tell(self, episode: EpisodeReport) -> None:
        told = {"Turns/Episode Length": float(sum(episode.lengths))}
        for seat, reward, length in zip(self.seats, episode.rewards, episode.lengths, strict=True):
            told[f"Turns/Reward of {seat.agent}"] = reward
            told[f"Turns/Length of {seat.agent}"] = float(length)
        for key, value in told.items():
            self._statistics.setdefault(key, []).append((value, AVERAGE))


SEAT = "seat"
"""The sensor that tells a policy which seat it plays."""


@dataclass(frozen=True, slots=True)
class Seat:
    """One seat of every copy of a game."""

    agent: str
    behavior: Behavior
    sensors: list[Sensor]
    """Of one observation, before it is stacked."""
    own: ObsArray | None
    """What the sensor `seat` says; None where there is none."""

    def look(self, observation: Any, before: list[ObsArray] | None) -> list[ObsArray]:
        """An observation behind those that were seen `before` (None: none), as the behaviour's arrays.

        Raises:
            ValueError: the observation is not of the seat's space.
        """
        arrays: list[ObsArray] = []
        specs = self.behavior.spec.observation_specs
        for k, sensor in enumerate(self.sensors):
            size = sensor.spec.shape[0]
            array = np.zeros(specs[k].shape, sensor.dtype)
            if before is not None and len(array) > size:
                array[:-size] = before[k][size:]
            sensor.read(observation, array[len(array) - size :])
            arrays.append(array)
        if self.own is not None:
            arrays.append(self.own)
        return arrays


def make_seats(
    game: AECEnv, self_play: bool | None, stack_size: int, images: Images, *, boards: bool = False
) -> list[Seat]:
    """The seats in the order of the game's possible agents, each a team of its own.

    `self_play`: one policy plays them all; None: if their spaces are equal. `boards`: as of `sensors`.

    Raises:
        UnsupportedSpaceError: a space cannot be used, or has no board where there are to be some.
        UnityEnvironmentException: one policy is to play seats of different spaces.
    """
    agents = list(game.possible_agents)
    spaces = [(game.observation_space(agent), game.action_space(agent)) for agent in agents]
    if self_play is None:
        self_play = all(each == spaces[0] for each in spaces)
    for agent, each in zip(agents, spaces):
        if self_play and each != spaces[0]:
            raise UnityEnvironmentException(
                f"One policy cannot play all seats of {game}: {agents[0]!r} has the spaces {spaces[0]}, and "
                f"{agent!r} has {each}. Leave self_play out (or give --self-play false): each seat is then a "
                "behaviour of its own."
            )
    names = [_stem(agents[0])] * len(agents) if self_play else agents
    seats = []
    for number, (agent, name, each) in enumerate(zip(agents, names, spaces)):
        try:
            seen, acts = sensors(each[0], images=images, boards=boards), actor(each[1])
        except UnsupportedSpaceError as error:
            raise UnsupportedSpaceError(f"The agent {agent!r} of {game}: {error}") from error
        if boards and not any(sensor.board for sensor in seen):
            raise UnsupportedSpaceError(
                f"The agent {agent!r} of {game}: the argument boards is for observations of rows x columns x "
                f"planes; found {each[0]}."
            )
        specs = [stacked(sensor.spec, stack_size) for sensor in seen]
        own = None
        if self_play:
            own = np.eye(len(agents), dtype=np.float32)[number]
            none = (DimensionProperty.NONE,)
            specs.append(ObservationSpec((len(agents),), none, ObservationType.DEFAULT, SEAT))
        behavior = Behavior(
            *(behavior_id(name, number), number, each, BehaviorSpec(specs, acts.spec), seen, acts),
            with_extra=own is not None,
        )
        seats.append(Seat(agent, behavior, seen, own))
    return seats


def _stem(agent: str) -> str:
    """`player_0` is the first of the behaviour `player`."""
    return agent.rstrip("0123456789").rstrip("_- ") or "agent"
