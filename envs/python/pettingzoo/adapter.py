"""Checked calls of one parallel PettingZoo environment, and its agents' reports as steps of a behavior."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from mlagents_envs.base_env import BehaviorMapping, BehaviorSpec, DecisionSteps, TerminalSteps
from numpy.typing import NDArray

from ...base import ObsArray
from ...errors import EnvContractError, UnsupportedSpaceError
from ...images import Images
from ..action_spaces import ActionDecoder, action_decoder, find_mask, forbidden_actions
from ..base import CopiedEnvironment
from ..calls import (
    as_bool,
    as_number,
    call_method,
    check_frame,
    check_result,
    close_all,
    name_of,
    read_attribute,
    shorten,
)
from ..episodes import EpisodeStarts
from ..spaces import SpaceSensor, sensors
from ..warned import warn_of_unbounded

HELP = "PettingZoo's parallel_api_test checks an environment."

_RESET = ("observations", "infos")
_STEP = ("observations", "rewards", "terminations", "truncations", "infos")


class ParallelEnv(Protocol):
    """The used part of `pettingzoo.ParallelEnv`; `state()`, `possible_agents` and `render()` are optional."""

    agents: list[str]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode; return observations and infos by agent."""

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        """Step all agents; return observations, rewards, terminations, truncations and infos by agent."""

    def observation_space(self, agent: str) -> Any:
        """The Gymnasium space of the agent's observations."""

    def action_space(self, agent: str) -> Any:
        """The Gymnasium space of the agent's actions."""

    def render(self) -> Any:
        """A frame [height, width, 3], in the render mode `rgb_array`."""

    def close(self) -> None:
        """Release windows and other resources."""


def reset_env(episodes: EpisodeStarts) -> tuple[Any, ...]:
    """Start an episode; returns observations and infos by agent.

    Raises:
        EnvContractError: `reset` raises an exception, or returns something else.
    """
    return check_result(episodes.reset(), episodes.env, "reset", _RESET, by_agent=True)


def step_env(env: ParallelEnv, actions: dict[str, Any]) -> tuple[Any, ...]:
    """Step the environment; returns observations, rewards, terminations, truncations, infos by agent.

    Raises:
        EnvContractError: `step` raises an exception, or returns something else.
    """
    return check_result(call_method(env, "step", actions), env, "step", _STEP, by_agent=True)


def read_agents(env: ParallelEnv) -> list[str]:
    """The agents that are alive.

    Raises:
        EnvContractError: They are no list of names.
    """
    agents = read_attribute(env, "agents")
    if not isinstance(agents, (list, tuple)):
        raise EnvContractError(
            f"The agents of {name_of(env)} are {shorten(agents)} ({type(agents).__name__}); expected a list. "
            f"{HELP}"
        )
    return list(agents)


def read_reward(env: ParallelEnv, agent: str, rewards: Mapping[str, Any]) -> float:
    """An agent's reward.

    Raises:
        EnvContractError: There is none, or it is not a number.
    """
    if agent not in rewards:
        raise EnvContractError(f"The agent {agent!r} of {name_of(env)} acted and got no reward. {HELP}")
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
    return EnvContractError(
        f"What the agent {agent!r} of {name_of(env)} got does not fit: {error}. {help_text}"
    )


@dataclass(frozen=True, slots=True)
class AgentBehavior:
    """The behavior of agents with equal spaces."""

    name: str
    number: int
    """The behavior's number, from 0 in the order of appearance."""
    spaces: tuple[Any, Any]
    """The spaces of observations and of actions."""
    spec: BehaviorSpec
    sensors: list[SpaceSensor]
    decoder: ActionDecoder
    with_extra: bool
    """Whether the spec's last observation is not the agent's own: the global state, or its seat."""

    @property
    def dtypes(self) -> list[type[np.float32 | np.uint8]]:
        """The dtypes of the observations, in the spec's order."""
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
    """The report of one agent at one step."""

    area: int
    agent: str
    number: int
    """The agent's id."""
    observations: list[ObsArray]
    """The observations, in the spec's order and shapes."""
    reward: float
    interrupted: bool
    """Whether the episode was interrupted; meaningful if it has ended."""
    forbidden_actions: NDArray[np.bool_] | None
    """A mask [sum of branches], True for actions that are not allowed; None: all are allowed."""


class ReportingEnvironment(CopiedEnvironment):
    """Copies of an environment whose agents report one by one; a step's reports are collected by behavior."""

    def __init__(self) -> None:
        super().__init__()
        self._behaviors: dict[str, AgentBehavior] = {}
        self._next_id = 0
        self._waiting: dict[str, list[AgentReport]] = {}
        self._ended: dict[str, list[AgentReport]] = {}

    @property
    def behavior_specs(self) -> Mapping[str, BehaviorSpec]:
        """The behaviors by name, such as `agent?team=0`."""
        specs = {name: behavior.spec for name, behavior in self._behaviors.items()}
        return BehaviorMapping(specs)  # type: ignore[no-any-return]

    def draw(self) -> NDArray[np.uint8]:
        """A frame of the first area, [height, width, 3]; its render mode must be `rgb_array`.

        Raises:
            EnvContractError: It raises an exception, or returns something else.
        """
        first = self._starts()[0].env
        return check_frame(call_method(first, "render"), first, "render")

    def close(self) -> None:
        """Close every copy.

        Raises:
            EnvContractError: One of them raises an exception; the others are closed nevertheless.
        """
        close_all(starts.env for starts in self._starts())

    def _decided(self) -> Iterator[tuple[AgentReport, Any]]:
        """The agents that requested a decision, with their actions in the action space; zeros by default."""
        for name, reports in self._waiting.items():
            if reports:
                behavior = self._behaviors[name]
                given = self._actions.get(name) or behavior.spec.action_spec.empty_action(len(reports))
                yield from zip(reports, behavior.decoder.decode(given.continuous, given.discrete))

    def _start_step(self) -> None:
        self._actions.clear()
        self._waiting = {name: [] for name in self._behaviors}
        self._ended = {name: [] for name in self._behaviors}

    def _finish_step(self, areas: int = 0) -> None:
        """Make the steps of the reports; in groups if `areas` is given."""
        for name, behavior in self._behaviors.items():
            ended = self._ended[name]
            interrupted = np.array([report.interrupted for report in ended], np.bool_)
            self._steps[name] = (
                _decision_steps(behavior, self._waiting[name], areas),
                TerminalSteps(*_columns(behavior, ended), interrupted, *_identities(behavior, ended, areas)),
            )

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1


def read_mask(behavior: AgentBehavior, observation: Any, info: Any, ended: bool) -> NDArray[np.bool_] | None:
    """The forbidden actions of an agent that requests a decision; None if it has no mask.

    Raises:
        ValueError: The mask does not fit the branches.
    """
    branches = behavior.spec.action_spec.discrete_branches
    mask = find_mask(observation, info) if branches and not ended else None
    return None if mask is None else forbidden_actions(mask, branches, behavior.decoder.space)


def read_spaces(
    env: Any, agent: str, spaces: tuple[Any, Any], images: Images, *, boards: bool = False
) -> tuple[list[SpaceSensor], ActionDecoder]:
    """The sensors and the action decoder of an agent's spaces.

    Raises:
        UnsupportedSpaceError: A space cannot be used.
    """
    try:
        seen, acts = sensors(spaces[0], images=images, boards=boards), action_decoder(spaces[1])
    except UnsupportedSpaceError as error:
        raise UnsupportedSpaceError(f"The agent {agent!r} of {name_of(env)}: {error}") from error
    warn_of_unbounded(env, acts.unbounded)
    return seen, acts


def _decision_steps(behavior: AgentBehavior, reports: Sequence[AgentReport], areas: int) -> DecisionSteps:
    masks = None
    branches = behavior.spec.action_spec.discrete_branches
    if branches and reports:
        flat = np.zeros((len(reports), sum(branches)), np.bool_)
        for row, report in enumerate(reports):
            if report.forbidden_actions is not None:
                flat[row] = report.forbidden_actions
        masks = np.split(flat, np.cumsum(branches)[:-1], axis=1)
    ids, *groups = _identities(behavior, reports, areas)
    return DecisionSteps(*_columns(behavior, reports), ids, masks, *groups)


def _columns(
    behavior: AgentBehavior, reports: Sequence[AgentReport]
) -> tuple[list[ObsArray], NDArray[np.float32]]:
    """The observations and rewards."""
    arrays: list[ObsArray] = [
        np.empty((len(reports), *spec.shape), dtype)
        for spec, dtype in zip(behavior.spec.observation_specs, behavior.dtypes)
    ]
    for k, array in enumerate(arrays):
        for row, report in enumerate(reports):
            array[row] = report.observations[k]
    return arrays, np.array([report.reward for report in reports], np.float32)


def _identities(
    behavior: AgentBehavior, reports: Sequence[AgentReport], areas: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
    """The agent ids, group ids and group rewards.

    Each behavior has a group per area, with ids from 1; without areas there are no groups (0).
    """
    groups = [1 + behavior.number * areas + report.area if areas else 0 for report in reports]
    ids = [report.number for report in reports]
    return np.array(ids, np.int32), np.array(groups, np.int32), np.zeros(len(reports), np.float32)
