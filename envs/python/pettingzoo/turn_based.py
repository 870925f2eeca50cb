"""Turn-based games as a BaseEnv: PettingZoo environments whose agents act one at a time (AECEnv)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mlagents_envs.base_env import (
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)
from mlagents_envs.exception import UnityEnvironmentException

from ...base import EngineStatistics, ObsArray, StatsAggregationMethod, behavior_id
from ...errors import UnsupportedSpaceError
from ...images import Images
from ..base import make_copies
from ..calls import call_method, name_of, seed_of_copy
from ..episodes import EpisodeStarts
from ..gymnasium.environment import stacked
from ..spaces import SpaceSensor
from .adapter import AgentBehavior, AgentReport, ReportingEnvironment, mismatch, read_mask, read_spaces
from .turns import HELP, AECEnv, EpisodeReport, Turn, TurnLoop

AVERAGE = StatsAggregationMethod.AVERAGE


class _Area:
    """One copy of the game, and the observations of its seats."""

    def __init__(self, loop: TurnLoop, index: int) -> None:
        self.loop = loop
        self.index = index
        self.game = 0
        """The number of its current game, among those of all areas."""
        self.seen: dict[int, list[ObsArray]] = {}
        """The stacked observation of each seat's last turn, by seat."""


class TurnBasedEnvironment(ReportingEnvironment):
    """Any number of copies of a turn-based game, stepped one after the other in the caller's thread.

    With every step one seat of each copy acts. Its transition lasts from its turn to its next turn, or to its
    end, and collects all rewards in between (see `TurnLoop`). A seat that has never acted is not reported.
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
            make: Makes one copy.
            seed: Seeds the first area; the other seeds are derived from it. None: random seeds.
            areas: The number of copies.
            self_play: All seats are teams of one behavior, which one policy plays; each observes its own seat
                by a sensor named `seat`, as a one-hot vector. Otherwise every seat is a behavior. None: if
                all seats have the same spaces.
            stack_size: The number of stacked observations of a seat's own turns, the latest last; zeros
                before its first.
            max_steps_per_episode: Turns of all seats after which an episode is interrupted; 0: never.
            boards: Observations of rows x columns x planes are images [planes, rows, columns], for
                convolutions; otherwise they are flattened.
            images: The dtype of image observations: 0 to 1, or bytes for a trainer.

        Raises:
            UnityEnvironmentException: A number is out of range, or one policy cannot play all seats.
            EnvContractError: The game breaks PettingZoo's rules.
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
            _Area(
                TurnLoop(EpisodeStarts(copy, seed_of_copy(seed, index), index), max_steps_per_episode), index
            )
            for index, copy in enumerate(make_copies(make, areas))
        ]
        game = self._areas[0].loop.game
        self.seats: list[Seat] = make_seats(game, self_play, stack_size, images, boards=boards)
        self._behaviors = {seat.behavior.name: seat.behavior for seat in self.seats}
        self._statistics: dict[str, list[tuple[float, StatsAggregationMethod]]] = {}
        self._games = 0
        """The number of games that have started, in all areas."""

    @property
    def num_agents(self) -> int:
        """The number of seats."""
        return len(self.seats)

    def reset(self) -> None:
        """Start a new episode in every area. Unfinished episodes are not reported.

        Raises:
            EnvContractError: The game breaks PettingZoo's rules.
        """
        self._start_step()
        for area in self._areas:
            self._start_game(area)
            self._report(area, area.loop.reset())
        self._finish_step()

    def step(self) -> None:
        """Step all areas with the acting seats' actions; missing ones are zeros. The first step is a reset.

        Raises:
            EnvContractError: The game breaks PettingZoo's rules.
        """
        if not self._steps:
            self.reset()
            return
        actions: list[Any] = [None] * len(self._areas)
        for report, action in self._decided():
            actions[report.area] = action
        self._start_step()
        for area, action in zip(self._areas, actions):
            turns, episode = area.loop.act(action)
            for turn in turns[:-1]:
                self._report(area, turn)
            if episode is not None:
                self._start_game(area)
                self._record_episode(episode)
            self._report(area, turns[-1])
        self._finish_step()

    def statistics(self) -> EngineStatistics:
        """Rewards and turns per seat, and all turns, of the episodes that have ended since the last call."""
        stats, self._statistics = self._statistics, {}
        return stats

    def seat_name(self, behavior_id: str) -> str:
        """The seat, one of the game's possible agents, whose agents have this behavior id."""
        return next(seat.agent for seat in self.seats if seat.behavior.name == behavior_id)

    def game_of(self, agent_id: int) -> int:
        """The number of the game that an agent plays, among those of all areas."""
        return agent_id // len(self.seats)

    def _start_game(self, area: _Area) -> None:
        """Number an area's next game; an agent's id is made of the game's number and its seat's."""
        area.game = self._games
        self._games += 1
        area.seen.clear()

    def _starts(self) -> Sequence[EpisodeStarts]:
        return [area.loop.episodes for area in self._areas]

    def _report(self, area: _Area, turn: Turn) -> None:
        seat = self.seats[turn.seat]
        try:
            seen = seat.stack(turn.observation, area.seen.get(turn.seat))
            closed = read_mask(seat.behavior, turn.observation, turn.info, turn.ended)
        except ValueError as error:
            raise mismatch(area.loop.game, seat.agent, error, HELP) from error
        number = area.game * len(self.seats) + turn.seat
        report = AgentReport(area.index, seat.agent, number, seen, turn.reward, turn.interrupted, closed)
        (self._ended if turn.ended else self._waiting)[seat.behavior.name].append(report)
        area.seen[turn.seat] = seen
        if turn.ended:
            del area.seen[turn.seat]

    def _record_episode(self, episode: EpisodeReport) -> None:
        stats = {"Turns/Episode Length": float(sum(episode.lengths))}
        for seat, reward, length in zip(self.seats, episode.rewards, episode.lengths, strict=True):
            stats[f"Turns/Reward of {seat.agent}"] = reward
            stats[f"Turns/Length of {seat.agent}"] = float(length)
        for key, value in stats.items():
            self._statistics.setdefault(key, []).append((value, AVERAGE))


SEAT = "seat"
"""The name of the sensor with the policy's own seat."""


@dataclass(frozen=True, slots=True)
class Seat:
    """One seat of every copy of a game."""

    agent: str
    behavior: AgentBehavior
    sensors: list[SpaceSensor]
    """The sensors of one observation, before it is stacked."""
    own: ObsArray | None
    """The observation of the sensor `seat`; None if there is none."""

    def stack(self, observation: Any, before: list[ObsArray] | None) -> list[ObsArray]:
        """Stack an observation after the previous ones, `before` (None: none), in the behavior's arrays.

        Raises:
            ValueError: The observation is not in the seat's space.
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
    """Make the seats in the order of the game's possible agents, each a team of its own.

    `self_play`: one policy plays them all; None: if their spaces are equal. `boards`: as in `sensors`.

    Raises:
        UnsupportedSpaceError: A space cannot be used, or is not a board although `boards` is set.
        UnityEnvironmentException: One policy is to play seats with different spaces.
    """
    agents = list(game.possible_agents)
    names_of_spaces = ("observation_space", "action_space")
    spaces = [tuple(call_method(game, name, agent) for name in names_of_spaces) for agent in agents]
    if self_play is None:
        self_play = all(each == spaces[0] for each in spaces)
    for agent, each in zip(agents, spaces):
        if self_play and each != spaces[0]:
            raise UnityEnvironmentException(
                f"One policy cannot play all seats of {name_of(game)}: {agents[0]!r} has the spaces "
                f"{spaces[0]}, and {agent!r} has {each}. Leave self_play out (or give --self-play false): "
                "each seat is then a behavior of its own."
            )
    plain = [str(agent).replace("?", "_") for agent in agents]  # what follows ? is a behavior's team
    names = [_stem(plain[0])] * len(agents) if self_play else plain
    seats = []
    for number, (agent, name, each) in enumerate(zip(agents, names, spaces)):
        seen, acts = read_spaces(game, agent, each, images, boards=boards)
        if boards and not any(sensor.board for sensor in seen):
            raise UnsupportedSpaceError(
                f"The agent {agent!r} of {name_of(game)}: the argument boards is for observations of rows x "
                f"columns x planes; found {each[0]}."
            )
        specs = [stacked(sensor.spec, stack_size) for sensor in seen]
        own = None
        if self_play:
            own = np.eye(len(agents), dtype=np.float32)[number]
            none = (DimensionProperty.NONE,)
            specs.append(ObservationSpec((len(agents),), none, ObservationType.DEFAULT, SEAT))
        behavior = AgentBehavior(
            behavior_id(name, number),
            number,
            each,
            BehaviorSpec(specs, acts.spec),
            seen,
            acts,
            with_extra=own is not None,
        )
        seats.append(Seat(agent, behavior, seen, own))
    return seats


def _stem(agent: str) -> str:
    """An agent's name without its number: `player` for `player_0`."""
    return agent.rstrip("0123456789").rstrip("_- ") or "agent"
