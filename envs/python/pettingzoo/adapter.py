"""One parallel environment of PettingZoo: what is used of it, and what may be wrong with it.

What the agents of a PettingZoo environment report, gathered into the arrays of a behaviour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from mlagents_envs.base_env import BehaviorSpec, DecisionSteps, TerminalSteps
from numpy.typing import NDArray

from ...base import ObsArray
from ...errors import GameFaultError
from ..action_spaces import Actor
from ..calls import called, number, parts_of, truth
from ..spaces import Sensor

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


@dataclass(frozen=True, slots=True)
class Behavior:
    """Agents of equal spaces."""

    name: str
    number: int
    """From 0 on, in the order of their appearance."""
    spaces: tuple[Any, Any]
    """Of observations and of actions."""
    spec: BehaviorSpec
    sensors: list[Sensor]
    actor: Actor
    with_extra: bool
    """The last observation of the spec is no part of an agent's own: the global state, or its seat."""

    @property
    def dtypes(self) -> list[type[np.float32 | np.uint8]]:
        """Of the observations, in the spec's order."""
        own: list[type[np.float32 | np.uint8]] = [sensor.dtype for sensor in self.sensors]
        return [*own, np.float32] if self.with_extra else own

    def read(self, observation: Any, state: NDArray[np.float32] | None) -> list[ObsArray]:
        """An agent's observation and the global state as arrays of the spec's shapes, its own and no views.

        Raises:
            ValueError: The observation is not of the agent's space.
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
class Report:
    """One agent at one step."""

    area: int
    agent: str
    number: int
    """Its id."""
    observations: list[ObsArray]
    """In the spec's order and shapes."""
    reward: float
    interrupted: bool
    """Of meaning where it has ended."""
    forbidden: NDArray[np.bool_] | None
    """[sum of branches], which actions are not allowed; None: all are."""


def decision_steps(behavior: Behavior, reports: Sequence[Report], areas: int = 0) -> DecisionSteps:
    """Those who wait for a decision; in groups where `areas` are given."""
    masks = None
    branches = behavior.spec.action_spec.discrete_branches
    if branches and reports:
        flat = np.zeros((len(reports), sum(branches)), np.bool_)
        for row, report in enumerate(reports):
            if report.forbidden is not None:
                flat[row] = report.forbidden
        masks = np.split(flat, np.cumsum(branches)[:-1], axis=1)
    return DecisionSteps(
        _observations(behavior, reports),
        _rewards(reports),
        _ids(reports),
        masks,
        _groups(behavior, reports, areas),
        np.zeros(len(reports), np.float32),
    )


def terminal_steps(behavior: Behavior, reports: Sequence[Report], areas: int = 0) -> TerminalSteps:
    """Those who have ended; see `decision_steps`."""
    return TerminalSteps(
        _observations(behavior, reports),
        _rewards(reports),
        np.array([report.interrupted for report in reports], np.bool_),
        _ids(reports),
        _groups(behavior, reports, areas),
        np.zeros(len(reports), np.float32),
    )


def _observations(behavior: Behavior, reports: Sequence[Report]) -> list[ObsArray]:
    arrays: list[ObsArray] = [
        np.empty((len(reports), *spec.shape), dtype)
        for spec, dtype in zip(behavior.spec.observation_specs, behavior.dtypes)
    ]
    for k, array in enumerate(arrays):
        for row, report in enumerate(reports):
            array[row] = report.observations[k]
    return arrays


def _rewards(reports: Sequence[Report]) -> NDArray[np.float32]:
    return np.array([report.reward for report in reports], np.float32)


def _ids(reports: Sequence[Report]) -> NDArray[np.int32]:
    return np.array([report.number for report in reports], np.int32)


def _groups(behavior: Behavior, reports: Sequence[Report], areas: int) -> NDArray[np.int32]:
    """A group for each behaviour and area, from 1 on; 0 without areas: nobody is in a group."""
    if not areas:
        return np.zeros(len(reports), np.int32)
    return np.array([1 + behavior.number * areas + report.area for report in reports], np.int32)
