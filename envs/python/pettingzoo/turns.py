"""The loop of a turn-based game: who acts, and what everybody has earned between two turns of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ...errors import GameFaultError
from ..calls import called, number
from .adapter import misfit

HELP = "PettingZoo's api_test checks an environment."


class AECEnv(Protocol):
    """What is used of `pettingzoo.AECEnv` (agent environment cycle, Terry et al. 2021, arXiv 2009.13051)."""

    agents: list[str]
    possible_agents: list[str]
    agent_selection: str
    rewards: Mapping[str, float]
    """What the last step has earned each agent that lives."""
    terminations: Mapping[str, bool]
    truncations: Mapping[str, bool]
    infos: Mapping[str, Mapping[str, Any]]

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode."""

    def step(self, action: Any) -> None:
        """Let the selected agent act; None for one that has ended, which takes it out."""

    def observe(self, agent: str) -> Any:
        """What the agent sees now."""

    def observation_space(self, agent: str) -> Any:
        """A space of Gymnasium."""

    def action_space(self, agent: str) -> Any:
        """A space of Gymnasium."""

    def render(self) -> Any:
        """A picture [height, width, 3], in the render mode `rgb_array`."""

    def close(self) -> None:
        """Let go of windows and the like."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A seat is to act, or its episode has ended."""

    seat: int
    observation: Any
    info: Mapping[str, Any] | None
    reward: float
    """All that the seat has earned since its last turn; 0 before its first."""
    ended: bool = False
    interrupted: bool = False
    """Of meaning where it has ended."""


@dataclass(frozen=True, slots=True)
class EpisodeReport:
    """A whole episode, which is over."""

    rewards: list[float]
    """What each seat has earned, also before its first turn."""
    lengths: list[int]
    """How often each seat has acted."""


class TurnLoop:
    """One copy of a game. Between `begin` or `act` and the next `act` exactly one seat waits.

    A transition of a seat runs from its turn to its next turn, or to its end, and earns everything that it
    got in between. A seat that has not acted yet has no transition: what it earns then is counted to its
    episode and to no step, and if its episode ends so, that is not told.
    """

    def __init__(self, game: AECEnv, seed: int | None = None, max_steps: int = 0) -> None:
        """`max_steps`: after so many turns of all seats an episode is broken off; 0: never.

        Raises:
            GameFaultError: nobody can take part.
        """
        self.game = game
        self.seats = list(game.possible_agents)
        if not self.seats:
            raise GameFaultError(f"{game} has no possible_agents. {HELP}")
        self._number = {agent: seat for seat, agent in enumerate(self.seats)}
        self._seed = seed
        """For the first reset; afterwards its chance goes on."""
        self._max_steps = max_steps
        self._forget_episode()

    def _forget_episode(self) -> None:
        count = len(self.seats)
        self._earned = [0.0] * count
        """Since each seat's last turn."""
        self._rewards = [0.0] * count
        self._lengths = [0] * count
        self._acting = [False] * count
        """Who has acted in the life in hand."""
        self._actor = 0
        """The seat that waits."""

    def begin(self) -> Turn:
        """Begin an episode; whose turn it is.

        Raises:
            GameFaultError: nobody may act.
        """
        called(self.game, "reset", seed=self._seed)
        self._seed = None
        self._forget_episode()
        turns, going = self._settle()
        if not going:
            raise GameFaultError(f"{self.game} began with nobody who may act. {HELP}")
        return turns[-1]

    def act(self, action: Any) -> tuple[list[Turn], EpisodeReport | None]:
        """Let the seat act whose turn it is.

        Returns:
            The seats that have ended, and behind them the one that is to act, of the next episode where this
            one is over; and the episode that is over.

        Raises:
            GameFaultError: the game breaks the rules of PettingZoo.
        """
        seat = self._actor
        self._acting[seat] = True
        self._lengths[seat] += 1
        self._earned[seat] = 0.0
        called(self.game, "step", action)
        self._count()
        turns, going = self._settle()
        if going and 0 < self._max_steps <= sum(self._lengths):
            turns, going = [*turns[:-1], *self._broken_off()], False
        if going:
            return turns, None
        report = EpisodeReport(self._rewards, self._lengths)
        return [*turns, self.begin()], report

    def _settle(self) -> tuple[list[Turn], bool]:
        """Take out those who have ended, until somebody is to act; False if nobody is left."""
        turns, game = [], self.game
        while game.agents:
            # Whatever is asked of a game goes through all its wrappers: nothing is asked twice.
            agent = game.agent_selection
            seat = self._seat(agent)
            terminated, truncated = self._ends(agent)
            if not terminated and not truncated:
                self._actor = seat
                turns.append(self._turn(seat))
                return turns, True
            turns += self._end(seat, interrupted=not terminated)
            called(game, "step", None)
            self._count()
        return turns, False

    def _broken_off(self) -> list[Turn]:
        """The ends of all who live."""
        return [turn for agent in self.game.agents for turn in self._end(self._seat(agent), interrupted=True)]

    def _end(self, seat: int, *, interrupted: bool) -> list[Turn]:
        """The end of a seat's episode; nothing if it has never acted."""
        if not self._acting[seat]:
            return []
        self._acting[seat] = False
        return [self._turn(seat, ended=True, interrupted=interrupted)]

    def _turn(self, seat: int, *, ended: bool = False, interrupted: bool = False) -> Turn:
        agent = self.seats[seat]
        reward = self._earned[seat] if ended or self._acting[seat] else 0.0
        observation = called(self.game, "observe", agent)
        return Turn(seat, observation, self.game.infos.get(agent), reward, ended, interrupted)

    def _count(self) -> None:
        """Count what the last step has earned everybody."""
        for agent, reward in self.game.rewards.items():
            earned = self._number_of(agent, reward)
            if earned:
                seat = self._seat(agent)
                self._earned[seat] += earned
                self._rewards[seat] += earned

    def _number_of(self, agent: str, reward: Any) -> float:
        try:
            return number(reward)
        except ValueError as error:
            raise misfit(self.game, agent, error, HELP) from error

    def _seat(self, agent: str) -> int:
        try:
            return self._number[agent]
        except KeyError:
            raise GameFaultError(
                f"The agent {agent!r} of {self.game} is none of its possible_agents, "
                f"{', '.join(self.seats)}. {HELP}"
            ) from None

    def _ends(self, agent: str) -> tuple[bool, bool]:
        try:
            return bool(self.game.terminations[agent]), bool(self.game.truncations[agent])
        except KeyError:
            raise GameFaultError(
                f"The agent {agent!r} of {self.game} is to act, and is not among the terminations and "
                f"truncations. {HELP}"
            ) from None
