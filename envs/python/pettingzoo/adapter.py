"""Checked calls of one parallel PettingZoo environment, and its agents' reports as steps of a behavior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from mlagents_envs.base_env import BehaviorSpec, DecisionSteps, TerminalSteps
from numpy.typing import NDArray

from ...base import ObsArray
from ...errors import EnvContractError
from ..action_spaces import ActionDecoder
from ..calls import as_bool, as_number, call_method, check_result
from ..spaces import SpaceSensor

HELP = "PettingZoo's parallel_api_test checks an environment."

_RESET = ("observations", "infos")
_STEP = ("observations", "rewards", "terminations", "truncations", "infos")


class ParallelEnv(Protocol):
    """The used part of `pettingzoo.ParallelEnv`; `state()`, `possible_agents` and `render()` are optional."""

    agents: list[str]

    def reset(self, seed: int | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Observations and infos by agent."""

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        """Observations, rewards, terminations, truncations and infos by agent."""

    def observation_space(self, agent: str) -> Any:
        """A Gymnasium space."""

    def action_space(self, agent: str) -> Any:
        """A Gymnasium space."""

    def render(self) -> Any:
        """A frame [height, width, 3], in the render mode `rgb_array`."""

    def close(self) -> None:
        """Release windows and other resources."""


def reset_env(env: ParallelEnv, seed: int | None) -> tuple[Any, ...]:
    """Reset the environment; returns observations and infos by agent.

    Raises:
        EnvContractError: `reset` raises an exception, or returns something else.
    """
    return check_result(call_method(env, "reset", seed=seed), env, "reset", _RESET, by_agent=True)


def step_env(env: ParallelEnv, actions: dict[str, Any]) -> tuple[Any, ...]:
    """Step the environment; returns observations, rewards, terminations, truncations, infos by agent.

    Raises:
        EnvContractError: `step` raises an exception, or returns something else.
    """
    return check_result(call_method(env, "step", actions), env, "step", _STEP, by_agent=True)


def read_reward(env: ParallelEnv, agent: str, rewards: Mapping[str, Any]) -> float:
    """An agent's reward.

    Raises:
        EnvContractError: There is none, or it is not a number.
    """
    if agent not in rewards:
        raise EnvContractError(f"The agent {agent!r} of {env} acted and got no reward. {HELP}")
    try:
        return as_number(rewards[agent])
    except ValueError as error:
        raise mismatch(env, agent, error) from error


def read_flag(env: ParallelEnv, agent: str, flags: Mapping[str, Any], name: str) -> bool:
    """An agent's termination or truncation; False if it is missing.

    Raises:
        EnvContractError: It is neither true nor false.
    """
    try:
        return as_bool(flags.get(agent, False), name)
    except ValueError as error:
        raise mismatch(env, agent, error) from error


def mismatch(env: object, agent: str, error: ValueError, help_text: str = HELP) -> EnvContractError:
    """The error for an agent's value that is not in its space, or is otherwise invalid."""
    return EnvContractError(f"What the agent {agent!r} of {env} got does not fit: {error}. {help_text}")


@dataclass(frozen=True, slots=True)
class AgentBehavior:
    """Agents of equal spaces."""

    name: str
    number: int
    """From 0, in the order of appearance."""
    spaces: tuple[Any, Any]
    """Of observations and of actions."""
    spec: BehaviorSpec
    sensors: list[SpaceSensor]
    decoder: ActionDecoder
    with_extra: bool
    """Whether the spec's last observation is not the agent's own: the global state, or its seat."""

    @property
    def dtypes(self) -> list[type[np.float32 | np.uint8]]:
        """Of the observations, in the spec's order."""
        own: list[type[np.float32 | np.uint8]] = [sensor.dtype for sensor in self.sensors]
        return [*own, np.float32] if self.with_extra else own

    def read(self, observation: Any, state: NDArray[np.float32] | None) -> list[ObsArray]:
        """Convert an agent's observation and the global state to new arrays of the spec's shapes.

        Raises:
            ValueError: The observation is not in the agent's space.
        """
        arrays: list[ObsArray] = [
            np.empty(spec.shape, dtype) for spec, dtype in zip(self.spec.observation_specs, self.dtypes)
        ]
        for sensor, array in zip(self.sensors, arrays):
            sensor.read(observation, array)
        if self.with_extra:
            assert state is not None
            arrays[-1][...] = state
        return arrays


@dataclass(frozen=True, slots=True)
class AgentReport:
    """One agent at one step."""

    area: int
    agent: str
    number: int
    """Its id."""
    observations: list[ObsArray]
    """In the spec's order and shapes."""
    reward: float
    interrupted: bool
    """Meaningful if it has ended."""
    forbidden_actions: NDArray[np.bool_] | None
    """[sum of branches] True for actions that are not allowed; None: all are allowed."""


def decision_steps(behavior: AgentBehavior, reports: Sequence[AgentReport], areas: int = 0) -> DecisionSteps:
    """The DecisionSteps of agents that request a decision; in groups if `areas` is given."""
    masks = None
    branches = behavior.spec.action_spec.discrete_branches
    if branches and reports:
        flat = np.zeros((len(reports), sum(branches)), np.bool_)
        for row, report in enumerate(reports):
            if report.forbidden_actions is not None:
                flat[row] = report.forbidden_actions
        masks = np.split(flat, np.cumsum(branches)[:-1], axis=1)
    return DecisionSteps(
        _observations(behavior, reports),
        _rewards(reports),
        _ids(reports),
        masks,
        _groups(behavior, reports, areas),
        np.zeros(len(reports), np.float32),
    )


def terminal_steps(behavior: AgentBehavior, reports: Sequence[AgentReport], areas: int = 0) -> TerminalSteps:
    """The TerminalSteps of agents whose episode has ended; see `decision_steps`."""
    return TerminalSteps(
        _observations(behavior, reports),
        _rewards(reports),
        np.array([report.interrupted for report in reports], np.bool_),
        _ids(reports),
        _groups(behavior, reports, areas),
        np.zeros(len(reports), np.float32),
    )


def _observations(behavior: AgentBehavior, reports: Sequence[AgentReport]) -> list[ObsArray]:
    arrays: list[ObsArray] = [
        np.empty((len(reports), *spec.shape), dtype)
        for spec, dtype in zip(behavior.spec.observation_specs, behavior.dtypes)
    ]
    for k, array in enumerate(arrays):
        for row, report in enumerate(reports):
            array[row] = report.observations[k]
    return arrays


def _rewards(reports: Sequence[AgentReport]) -> NDArray[np.float32]:
    return np.array([report.reward for report in reports], np.float32)


def _ids(reports: Sequence[AgentReport]) -> NDArray[np.int32]:
    return np.array([report.number for report in reports], np.int32)


def _groups(behavior: AgentBehavior, reports: Sequence[AgentReport], areas: int) -> NDArray[np.int32]:
    """A group id per behavior and area, from 1; 0, no group, without areas."""
    if not areas:
        return np.zeros(len(reports), np.int32)
    return np.array([1 + behavior.number * areas + report.area for report in reports], np.int32)
