"""The loop of a turn-based game: the acting seat, and each seat's rewards between its turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ...errors import EnvContractError
from ..calls import as_bool, as_number, call_method, name_of, read_attribute, shorten
from ..episodes import EpisodeStarts
from .adapter import mismatch

HELP = "PettingZoo's api_test checks an environment."
_PATIENCE = 10
"""Rounds of turns within which an agent that has ended must be selected, to be removed by step(None)."""


class AECEnv(Protocol):
    """The used part of `pettingzoo.AECEnv` (agent environment cycle, Terry et al. 2021, arXiv 2009.13051)."""

    agents: list[str]
    possible_agents: list[str]
    agent_selection: str
    rewards: Mapping[str, float]
    """Each live agent's reward of the last step."""
    terminations: Mapping[str, bool]
    truncations: Mapping[str, bool]
    infos: Mapping[str, Mapping[str, Any]]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode."""

    def step(self, action: Any) -> None:
        """Step the selected agent; None for one whose episode has ended, which removes it."""

    def observe(self, agent: str) -> Any:
        """The agent's current observation."""

    def observation_space(self, agent: str) -> Any:
        """The Gymnasium space of the agent's observations."""

    def action_space(self, agent: str) -> Any:
        """The Gymnasium space of the agent's actions."""

    def render(self) -> Any:
        """A frame [height, width, 3], in the render mode `rgb_array`."""

    def close(self) -> None:
        """Release windows and other resources."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A seat's turn: the seat must act, or its episode has ended."""

    seat: int
    observation: Any
    info: Mapping[str, Any] | None
    reward: float
    """The sum of the seat's rewards since its last turn; 0 before its first."""
    ended: bool = False
    interrupted: bool = False
    """Whether the episode was interrupted; meaningful if it has ended."""


@dataclass(frozen=True, slots=True)
class EpisodeReport:
    """A finished episode."""

    rewards: list[float]
    """The sum of each seat's rewards, also before its first turn."""
    lengths: list[int]
    """The number of each seat's turns."""


class TurnLoop:
    """One copy of a game. Between `reset` or `act` and the next `act` exactly one seat must act.

    A seat's transition lasts from its turn to its next turn, or to its end, and collects all rewards in
    between. A seat that has not acted yet has no transition: its rewards count for its episode but for no
    step, and if its episode ends then, that is not reported.
    """

    def __init__(self, episodes: EpisodeStarts, max_steps: int = 0) -> None:
        """`episodes`: of the game. `max_steps`: turns of all seats that interrupt an episode; 0: none do.

        Raises:
            EnvContractError: The game has no agents.
        """
        self.episodes = episodes
        self.game: AECEnv = episodes.env
        game = self.game
        self.seats = list(getattr(game, "possible_agents", None) or ())
        if not self.seats:
            raise EnvContractError(f"{name_of(game)} has no possible_agents. {HELP}")
        self._number = {agent: seat for seat, agent in enumerate(self.seats)}
        self._max_steps = max_steps
        self._reset_episode()

    def _reset_episode(self) -> None:
        count = len(self.seats)
        self._earned = [0.0] * count
        """Rewards since each seat's last turn."""
        self._rewards = [0.0] * count
        self._lengths = [0] * count
        self._acting = [False] * count
        """Whether each seat has acted in this episode."""
        self._acting_seat = 0
        """The seat that must act."""
        self._present = 0
        """The number of agents at the last turn."""
        self._turns_unchecked = 0
        self._over: set[str] = set()
        """The agents that had ended, and not been removed, when that was checked last."""

    def reset(self) -> Turn:
        """Start an episode; returns the first turn.

        Raises:
            EnvContractError: No agent can act.
        """
        self.episodes.reset()
        self._reset_episode()
        turns, running = self._advance_to_turn()
        if not running:
            raise EnvContractError(f"{name_of(self.game)} started without an agent that can act. {HELP}")
        return turns[-1]

    def act(self, action: Any) -> tuple[list[Turn], EpisodeReport | None]:
        """Step the game with the action of the seat whose turn it is.

        Returns:
            The seats whose episode has ended, followed by the one that must act, in the next episode if this
            one is over; and the episode that is over, or None.

        Raises:
            EnvContractError: The game breaks PettingZoo's rules.
        """
        seat = self._acting_seat
        self._acting[seat] = True
        self._lengths[seat] += 1
        self._earned[seat] = 0.0
        call_method(self.game, "step", action)
        self._collect_rewards()
        turns, running = self._advance_to_turn()
        if running and 0 < self._max_steps <= sum(self._lengths):
            turns, running = [*turns[:-1], *self._interrupt_all()], False
        if running:
            return turns, None
        report = EpisodeReport(self._rewards, self._lengths)
        return [*turns, self.reset()], report

    def _advance_to_turn(self) -> tuple[list[Turn], bool]:
        """Remove agents whose episode has ended until one must act; False if none is left."""
        turns, game = [], self.game
        # Each access goes through all wrappers of the game, so there are no repeated ones.
        while agents := read_attribute(game, "agents"):
            agent = read_attribute(game, "agent_selection")
            seat = self._seat(agent)
            terminated, truncated = self._ends(agent)
            if not terminated and not truncated:
                self._check_present(agents)
                self._check_removed(agents)
                self._acting_seat = seat
                turns.append(self._turn(seat))
                return turns, True
            turns += self._end(seat, interrupted=not terminated)
            self._over.discard(agent)
            call_method(game, "step", None)
            if agent in game.agents:
                raise EnvContractError(
                    f"The agent {agent!r} of {name_of(game)} has ended, and step(None) did not remove it: "
                    "step() must begin with self._was_dead_step(action) for agents that have ended. "
                    f"{HELP}"
                )
            self._collect_rewards()
        self._check_present(())
        return turns, False

    def _check_present(self, agents: Sequence[str]) -> None:
        """Refuse that a seat has acted and is gone before its end was seen: its last reward would be lost."""
        if len(agents) < self._present:
            acting = (agent for agent, acts in zip(self.seats, self._acting) if acts)
            gone = next((agent for agent in acting if agent not in agents), None)
            if gone is not None:
                raise EnvContractError(
                    f"The agent {gone!r} of {name_of(self.game)} left `agents` before its end was seen. An "
                    "agent whose episode ends stays there, terminated or truncated, until it is selected and "
                    f"step(None) removes it. {HELP}"
                )
        self._present = len(agents)

    def _check_removed(self, agents: Sequence[str]) -> None:
        """Now and then, refuse an agent that ended long ago and was never selected: nobody sees its end."""
        self._turns_unchecked += 1
        if self._turns_unchecked < _PATIENCE * len(self.seats):
            return
        self._turns_unchecked = 0
        before, self._over = self._over, {agent for agent in agents if any(self._ends(agent))}
        waiting = next((agent for agent in agents if agent in before & self._over), None)
        if waiting is not None:
            raise EnvContractError(
                f"The agent {waiting!r} of {name_of(self.game)} has ended, and others act on while it is not "
                "selected, so that step(None) could remove it from `agents`. Select agents that have ended "
                f"first: PettingZoo's self._deads_step_first() does. {HELP}"
            )

    def _interrupt_all(self) -> list[Turn]:
        """End the episodes of all live agents."""
        return [turn for agent in self.game.agents for turn in self._end(self._seat(agent), interrupted=True)]

    def _end(self, seat: int, *, interrupted: bool) -> list[Turn]:
        """End a seat's episode; return its last turn, or nothing if it has never acted."""
        if not self._acting[seat]:
            return []
        self._acting[seat] = False
        return [self._turn(seat, ended=True, interrupted=interrupted)]

    def _turn(self, seat: int, *, ended: bool = False, interrupted: bool = False) -> Turn:
        agent = self.seats[seat]
        reward = self._earned[seat] if ended or self._acting[seat] else 0.0
        observation = call_method(self.game, "observe", agent)
        return Turn(seat, observation, self._by_agent("infos").get(agent), reward, ended, interrupted)

    def _collect_rewards(self) -> None:
        """Collect all rewards of the last step."""
        for agent, reward in self._by_agent("rewards").items():
            earned = self._read_reward(agent, reward)
            if earned:
                seat = self._seat(agent)
                self._earned[seat] += earned
                self._rewards[seat] += earned

    def _read_reward(self, agent: str, reward: Any) -> float:
        try:
            return as_number(reward)
        except ValueError as error:
            raise mismatch(self.game, agent, error, HELP) from error

    def _seat(self, agent: str) -> int:
        try:
            return self._number[agent]
        except KeyError:
            raise EnvContractError(
                f"The agent {agent!r} of {name_of(self.game)} is not one of its possible_agents, "
                f"{', '.join(map(str, self.seats))}. {HELP}"
            ) from None

    def _ends(self, agent: str) -> tuple[bool, bool]:
        terminations, truncations = self._by_agent("terminations"), self._by_agent("truncations")
        try:
            return (
                as_bool(terminations[agent], "the termination"),
                as_bool(truncations[agent], "the truncation"),
            )
        except KeyError:
            raise EnvContractError(
                f"The agent {agent!r} of {name_of(self.game)} must act, but is not among the terminations "
                f"and truncations. {HELP}"
            ) from None
        except ValueError as error:
            raise mismatch(self.game, agent, error, HELP) from error

    def _by_agent(self, name: str) -> Mapping[str, Any]:
        """An attribute of the game that has a value for each agent."""
        found = read_attribute(self.game, name)
        if not isinstance(found, Mapping):
            raise EnvContractError(
                f"The {name} of {name_of(self.game)} are {shorten(found)} ({type(found).__name__}); expected "
                f"a dict by agent. {HELP}"
            )
        return found
