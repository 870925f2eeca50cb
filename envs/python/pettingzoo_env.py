"""One parallel environment of PettingZoo: what is used of it, and what may be wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ..faults import GameFaultError
from .game_calls import called, number, parts_of, truth

HELP = "PettingZoo's parallel_api_test checks an environment."

_BEGINNING = ("observations", "infos")
_STEP = ("observations", "rewards", "terminations", "truncations", "infos")


class ParallelEnv(Protocol):
    """What is used of `pettingzoo.ParallelEnv`. `state()`, `possible_agents` and `render()` are optional."""

    agents: list[str]

    def reset(self, seed: int | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Observations and infos by agent."""

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        """Observations, rewards, terminations, truncations and infos by agent."""

    def observation_space(self, agent: str) -> Any:
        """A space of Gymnasium."""

    def action_space(self, agent: str) -> Any:
        """A space of Gymnasium."""

    def render(self) -> Any:
        """A picture [height, width, 3], in the render mode `rgb_array`."""

    def close(self) -> None:
        """Let go of windows and the like."""


def begun(env: ParallelEnv, seed: int | None) -> tuple[Any, ...]:
    """The first observations of an episode, and the infos, by agent.

    Raises:
        GameFaultError: `reset` raises an exception, or gives something else.
    """
    return parts_of(called(env, "reset", seed=seed), env, "reset", _BEGINNING, by_agent=True)


def stepped(env: ParallelEnv, actions: dict[str, Any]) -> tuple[Any, ...]:
    """Observations, rewards, terminations, truncations and infos of a step, by agent.

    Raises:
        GameFaultError: `step` raises an exception, or gives something else.
    """
    return parts_of(called(env, "step", actions), env, "step", _STEP, by_agent=True)


def earned(env: ParallelEnv, agent: str, rewards: Mapping[str, Any]) -> float:
    """An agent's reward.

    Raises:
        GameFaultError: There is none, or it is no number.
    """
    if agent not in rewards:
        raise GameFaultError(f"The agent {agent!r} of {env} acted and got no reward. {HELP}")
    try:
        return number(rewards[agent])
    except ValueError as error:
        raise misfit(env, agent, error) from error


def ends(env: ParallelEnv, agent: str, flags: Mapping[str, Any], name: str) -> bool:
    """Whether an agent has ended by these flags; who is not among them has not.

    Raises:
        GameFaultError: What is there is neither true nor false.
    """
    try:
        return truth(flags.get(agent, False), name)
    except ValueError as error:
        raise misfit(env, agent, error) from error


def misfit(env: object, agent: str, error: ValueError, help_text: str = HELP) -> GameFaultError:
    """What to raise where an agent got what is not of its spaces, or is not what it should be."""
    return GameFaultError(f"What the agent {agent!r} of {env} got does not fit: {error}. {help_text}")
