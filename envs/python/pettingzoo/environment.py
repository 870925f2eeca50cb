"""Parallel PettingZoo environments as a BaseEnv.

Agents whose observation and action spaces are equal are one behavior, and in each area one group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from mlagents_envs.base_env import (
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)
from mlagents_envs.exception import UnityEnvironmentException
from numpy.typing import NDArray

from ...base import STATE
from ...errors import EnvContractError
from ...images import Images
from ..base import make_copies
from ..calls import call_method, game_error, name_of, seed_of_copy
from ..episodes import EpisodeStarts
from .adapter import (
    HELP,
    AgentBehavior,
    AgentReport,
    ParallelEnv,
    ReportingEnvironment,
    mismatch,
    read_agents,
    read_flag,
    read_mask,
    read_reward,
    read_spaces,
    reset_env,
    step_env,
)


class _Area:
    """One copy of the environment, and its live agents."""

    def __init__(self, env: ParallelEnv, index: int, seed: int | None) -> None:
        self.env = env
        self.index = index
        self.episodes = EpisodeStarts(env, seed, index)
        self.ids: dict[str, int] = {}
        """The ids of live agents, new in each episode."""
        self.state: NDArray[np.float32] | None = None
        """The last global state, if it is observed."""


class PettingZooEnvironment(ReportingEnvironment):
    """Any number of copies of a parallel environment, stepped one after the other in the caller's thread.

    The behaviors are known after the first `reset`. An episode ends when no agent is alive; the next one
    starts within the same step, with new ids. An agent that is truncated is interrupted, one that is
    terminated is not. A reward in the step in which an agent appears is not reported, since it has not acted
    yet.

    The copies' arrays are copied at once, so that they may be reused.
    """

    def __init__(
        self,
        make: Callable[[], ParallelEnv],
        seed: int | None = None,
        areas: int = 1,
        state_observation: bool | None = False,
        images: Images = "float32",
    ) -> None:
        """Make the copies.

        Args:
            make: Makes one copy.
            seed: Seeds the first area; the other seeds are derived from it. None: random seeds.
            areas: The number of copies.
            state_observation: Every agent also observes the global state, by a sensor named `state`. None: if
                the environment has one.
            images: The dtype of image observations: 0 to 1, or bytes for a trainer.

        Raises:
            UnityEnvironmentException: There are no areas.
        """
        if areas < 1:
            raise UnityEnvironmentException(
                f"A PettingZoo environment got {areas} areas; it needs at least 1."
            )
        super().__init__()
        copies = enumerate(make_copies(make, areas))
        self._areas = [_Area(copy, index, seed_of_copy(seed, index)) for index, copy in copies]
        self._state_observation = state_observation
        self._images = images
        self._behavior_of: dict[str, AgentBehavior] = {}
        self._state_size: int | None = None
        """The number of values of the global state; None before the first."""

    def reset(self) -> None:
        """Start a new episode in every area. Unfinished episodes are not reported.

        Raises:
            UnityEnvironmentException: The environment has no global state to observe.
            EnvContractError: It breaks PettingZoo's rules.
        """
        self._start_step()
        for area in self._areas:
            self._start_episode(area)
        self._finish_step(len(self._areas))

    def step(self) -> None:
        """Step all areas; missing actions are zeros. A first step without a reset is a reset.

        Raises:
            EnvContractError: The environment breaks PettingZoo's rules.
        """
        if not self._steps:
            self.reset()
            return
        chosen: list[dict[str, Any]] = [{} for _ in self._areas]
        for report, action in self._decided():
            chosen[report.area][report.agent] = action
        self._start_step()
        for area, actions in zip(self._areas, chosen):
            self._step_area(area, actions)
        self._finish_step(len(self._areas))

    def _starts(self) -> Sequence[EpisodeStarts]:
        return [area.episodes for area in self._areas]

    def _step_area(self, area: _Area, actions: dict[str, Any]) -> None:
        observations, rewards, terminations, truncations, infos = step_env(area.env, actions)
        state = self._state(area)
        agents = read_agents(area.env)
        present, stayed = set(agents), []
        for agent, agent_id in list(area.ids.items()):
            terminated = read_flag(area.env, agent, terminations, "the termination")
            truncated = read_flag(area.env, agent, truncations, "the truncation")
            ended = terminated or truncated
            if agent not in observations or not (ended or agent in present):
                raise EnvContractError(
                    f"The agent {agent!r} of {name_of(area.env)} vanished: it has no observation, or is not "
                    f"among the agents without being terminated or truncated. {HELP}"
                )
            if agent not in terminations and agent not in truncations:
                raise EnvContractError(
                    f"The agent {agent!r} of {name_of(area.env)} acted, and is among neither the "
                    f"terminations nor the truncations. {HELP}"
                )
            self._report(
                area, agent, agent_id, observations[agent], infos.get(agent), state,
                reward=read_reward(area.env, agent, rewards), ended=ended, interrupted=not terminated,
            )  # fmt: skip
            if ended:
                del area.ids[agent]
                stayed += [agent] if agent in present else []
        new = [
            agent
            for agent in agents
            if agent not in area.ids and not terminations.get(agent) and not truncations.get(agent)
        ]
        self._add_agents(area, new, observations, infos, state)
        if not area.ids:
            self._start_episode(area)
        elif stayed:  # otherwise it would get no more actions, or begin anew although it has not left
            raise EnvContractError(
                f"The agent {stayed[0]!r} of {name_of(area.env)} is terminated or truncated, and still among "
                "its agents, while others go on. Remove it from `agents` in the step in which it ends; if it "
                f"comes back later, add it then. {HELP}"
            )

    def _start_episode(self, area: _Area) -> None:
        observations, infos = reset_env(area.episodes)
        area.ids.clear()
        for agent in getattr(area.env, "possible_agents", None) or ():
            self._behavior(area, agent)
        agents = read_agents(area.env)
        if not agents:
            raise EnvContractError(
                f"{name_of(area.env)} started an episode without an agent: `agents` is empty after reset. "
                f"{HELP}"
            )
        self._add_agents(area, agents, observations, infos, self._state(area))

    def _state(self, area: _Area) -> NDArray[np.float32] | None:
        """The current global state, flat, if it is to be observed."""
        if self._state_observation is False:
            return None
        state = getattr(area.env, "state", None)
        try:
            if state is None:
                raise NotImplementedError
            area.state = np.ravel(state()).astype(np.float32)
        except NotImplementedError as error:
            if self._state_observation is None:
                self._state_observation = False
                return None
            raise UnityEnvironmentException(
                f"{name_of(area.env)} has no global state: its state() is missing or not implemented. Leave "
                "--state-observation out."
            ) from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if area.state is not None and not area.env.agents:  # made of agents, of whom none is left
                return area.state
            raise game_error(area.env, "state", error) from error
        size = self._state_size = area.state.size if self._state_size is None else self._state_size
        if area.state.size != size:
            raise EnvContractError(
                f"state of {name_of(area.env)} returned {area.state.size} values; expected {size}, as "
                f"before. {HELP}"
            )
        return area.state

    def _add_agents(
        self,
        area: _Area,
        agents: Iterable[str],
        observations: Mapping[str, Any],
        infos: Mapping[str, Any],
        state: NDArray[np.float32] | None,
    ) -> None:
        """Give new agents their ids, and report their first decision requests."""
        for agent in agents:
            if agent not in observations:
                raise EnvContractError(
                    f"The agent {agent!r} of {name_of(area.env)} started without an observation. {HELP}"
                )
            area.ids[agent] = self._new_id()
            self._report(area, agent, area.ids[agent], observations[agent], infos.get(agent), state)

    def _report(
        self,
        area: _Area,
        agent: str,
        agent_id: int,
        observation: Any,
        info: Mapping[str, Any] | None,
        state: NDArray[np.float32] | None,
        *,
        reward: float = 0.0,
        ended: bool = False,
        interrupted: bool = False,
    ) -> None:
        behavior = self._behavior(area, agent)
        try:
            seen = behavior.read(observation, state)
            closed = read_mask(behavior, observation, info, ended)
        except ValueError as error:
            raise mismatch(area.env, agent, error) from error
        report = AgentReport(area.index, agent, agent_id, seen, reward, interrupted, closed)
        (self._ended if ended else self._waiting)[behavior.name].append(report)

    def _behavior(self, area: _Area, agent: str) -> AgentBehavior:
        """The behavior of an agent; a new one if its spaces are new."""
        known = self._behavior_of.get(agent)
        if known is not None:
            return known
        spaces = tuple(call_method(area.env, name, agent) for name in ("observation_space", "action_space"))
        behavior = next((b for b in self._behaviors.values() if b.spaces == spaces), None)
        if behavior is None:
            behavior = self._new_behavior(area, agent, spaces)
            self._behaviors[behavior.name] = behavior
            self._waiting[behavior.name], self._ended[behavior.name] = [], []
        self._behavior_of[agent] = behavior
        return behavior

    def _new_behavior(self, area: _Area, agent: str, spaces: tuple[Any, Any]) -> AgentBehavior:
        seen, acts = read_spaces(area.env, agent, spaces, self._images)
        specs = [sensor.spec for sensor in seen]
        state = self._state(area)
        if state is not None:
            specs.append(
                ObservationSpec(state.shape, (DimensionProperty.NONE,), ObservationType.DEFAULT, STATE)
            )
        name = _behavior_name(agent, self._behaviors)
        return AgentBehavior(
            name, len(self._behaviors), spaces, BehaviorSpec(specs, acts.spec), seen, acts,
            with_extra=state is not None,
        )  # fmt: skip


def _behavior_name(agent: str, layout: Sequence[str] | Mapping[str, Any]) -> str:
    """The name of an agent's behavior: `agent` for `agent_0`; `agent2` if that name is taken."""
    plain = str(agent).partition("?")[0]  # what follows is a behavior's team
    stem = plain.rstrip("0123456789").rstrip("_- ") or "agent"
    names = [stem, *(f"{stem}{k}" for k in range(2, len(layout) + 2))]
    return next(f"{name}?team=0" for name in names if f"{name}?team=0" not in layout)
