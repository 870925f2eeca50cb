"""PettingZoo's parallel environments as a BaseEnv: teams from another source than an engine.

Agents whose observation and action spaces are equal are one behaviour, and in each area one group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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

from ...base import STATE
from ...errors import GameFaultError, UnsupportedSpaceError
from ...images import Images
from ..action_spaces import actor, forbidden, given_mask
from ..base import InProcessEnvironment
from ..calls import seed_of_copy
from ..spaces import sensors
from .adapter import (
    HELP,
    Behavior,
    ParallelEnv,
    Report,
    begun,
    decision_steps,
    earned,
    ends,
    misfit,
    stepped,
    terminal_steps,
)


class _Area:
    """One copy of the environment, and who lives in it."""

    def __init__(self, env: ParallelEnv, index: int, seed: int | None) -> None:
        self.env = env
        self.index = index
        self.seed = seed
        """For its first reset; afterwards its chance goes on."""
        self.ids: dict[str, int] = {}
        """The living, and their ids: one for each life."""


class PettingZooEnvironment(InProcessEnvironment):
    """Any number of copies of a parallel environment, stepped one after the other in the caller's thread.

    The behaviours are known after the first `reset`. An episode ends when no agent lives any more; the next
    begins within the same step, under new ids. An agent that is truncated is interrupted, one that is
    terminated is not. A reward in the step in which an agent appears is not told: it has not acted yet.

    Whatever the copies hand out is copied at once, so that they may use their arrays again.
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
            make: Makes one.
            seed: Of the first area's chance; the others' are drawn from it. None: another one each time.
            areas: How many copies.
            state_observation: Every agent also observes the global state, by a sensor named `state`. None:
                where the environment has one.
            images: What images are given out as: 0 to 1, or for a trainer the bytes.

        Raises:
            UnityEnvironmentException: There are no areas.
        """
        if areas < 1:
            raise UnityEnvironmentException(
                f"A PettingZoo environment got {areas} areas; it needs at least 1."
            )
        super().__init__()
        self._areas = [_Area(make(), index, seed_of_copy(seed, index)) for index in range(areas)]
        self._state_observation = state_observation
        self._images = images
        self._behaviors: dict[str, Behavior] = {}
        self._behavior_of: dict[str, Behavior] = {}
        self._next_id = 0
        self._waiting: dict[str, list[Report]] = {}
        self._ended: dict[str, list[Report]] = {}

    @property
    def behavior_specs(self) -> Mapping[str, BehaviorSpec]:
        """The behaviours by name, such as `agent?team=0`; none before the first reset."""
        specs = {name: behavior.spec for name, behavior in self._behaviors.items()}
        return BehaviorMapping(specs)  # type: ignore[no-any-return]

    def reset(self) -> None:
        """Begin a new episode in every area. The lives that are cut thereby are not reported.

        Raises:
            UnityEnvironmentException: The environment has no global state to observe.
            GameFaultError: It breaks the rules of PettingZoo.
        """
        self._begin_step()
        for area in self._areas:
            self._begin_episode(area)
        self._finish_step()

    def step(self) -> None:
        """Let the agents act; those without actions get zeros. A first step without a reset is a reset.

        Raises:
            GameFaultError: The environment breaks the rules of PettingZoo.
        """
        if not self._steps:
            self.reset()
            return
        actions = self._decoded()
        self._begin_step()
        for area, chosen in zip(self._areas, actions):
            self._step_area(area, chosen)
        self._finish_step()

    def draw(self) -> NDArray[np.uint8]:
        """A picture of the first area, [height, width, 3]; its render mode is to be `rgb_array`."""
        picture: NDArray[np.uint8] = np.asarray(self._areas[0].env.render(), np.uint8)
        return picture

    def close(self) -> None:
        """Close every copy."""
        for area in self._areas:
            area.env.close()

    def _decoded(self) -> list[dict[str, Any]]:
        """By area and agent, what was decided in the form of the agents' action spaces."""
        chosen: list[dict[str, Any]] = [{} for _ in self._areas]
        for name, reports in self._waiting.items():
            behavior = self._behaviors[name]
            given = self._actions.get(name) or behavior.spec.action_spec.empty_action(len(reports))
            for report, action in zip(reports, behavior.actor.decode(given.continuous, given.discrete)):
                chosen[report.area][report.agent] = action
        return chosen

    def _begin_step(self) -> None:
        self._actions.clear()
        self._waiting = {name: [] for name in self._behaviors}
        self._ended = {name: [] for name in self._behaviors}

    def _finish_step(self) -> None:
        for name, behavior in self._behaviors.items():
            self._steps[name] = (
                decision_steps(behavior, self._waiting[name], len(self._areas)),
                terminal_steps(behavior, self._ended[name], len(self._areas)),
            )

    def _step_area(self, area: _Area, actions: dict[str, Any]) -> None:
        observations, rewards, terminations, truncations, infos = stepped(area.env, actions)
        state = self._state(area)
        present = set(area.env.agents)
        for agent, agent_id in list(area.ids.items()):
            terminated = ends(area.env, agent, terminations, "the termination")
            truncated = ends(area.env, agent, truncations, "the truncation")
            ended = terminated or truncated
            if agent not in observations or not (ended or agent in present):
                raise GameFaultError(
                    f"The agent {agent!r} of {area.env} vanished: it has no observation, or is not among "
                    f"the agents without being terminated or truncated. {HELP}"
                )
            self._report(
                area, agent, agent_id, observations[agent], infos.get(agent), state,
                reward=earned(area.env, agent, rewards), ended=ended, interrupted=not terminated,
            )  # fmt: skip
            if ended:
                del area.ids[agent]
        came = [
            agent
            for agent in area.env.agents
            if agent not in area.ids and not terminations.get(agent) and not truncations.get(agent)
        ]
        self._admit(area, came, observations, infos, state)
        if not area.ids:
            self._begin_episode(area)

    def _begin_episode(self, area: _Area) -> None:
        observations, infos = begun(area.env, area.seed)
        area.seed = None
        area.ids.clear()
        for agent in getattr(area.env, "possible_agents", None) or ():
            self._behavior(area, agent)
        self._admit(area, area.env.agents, observations, infos, self._state(area))

    def _state(self, area: _Area) -> NDArray[np.float32] | None:
        """The global state now, flat, where it is to be observed."""
        if self._state_observation is False:
            return None
        state = getattr(area.env, "state", None)
        try:
            if state is None:
                raise NotImplementedError
            return np.ravel(state()).astype(np.float32)
        except NotImplementedError as error:
            if self._state_observation is None:
                self._state_observation = False
                return None
            raise UnityEnvironmentException(
                f"{area.env} has no global state: its state() is missing or not implemented. Leave "
                "--state-observation out."
            ) from error

    def _admit(
        self,
        area: _Area,
        agents: Iterable[str],
        observations: Mapping[str, Any],
        infos: Mapping[str, Any],
        state: NDArray[np.float32] | None,
    ) -> None:
        """Give those who begin to live their ids, and let them wait for a decision."""
        for agent in agents:
            if agent not in observations:
                raise GameFaultError(
                    f"The agent {agent!r} of {area.env} began without an observation. {HELP}"
                )
            area.ids[agent] = self._next_id
            self._next_id += 1
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
        branches = behavior.spec.action_spec.discrete_branches
        mask = given_mask(observation, info) if branches and not ended else None
        try:
            seen = behavior.read(observation, state)
            closed = None if mask is None else forbidden(mask, branches)
        except ValueError as error:
            raise misfit(area.env, agent, error) from error
        report = Report(area.index, agent, agent_id, seen, reward, interrupted, closed)
        (self._ended if ended else self._waiting)[behavior.name].append(report)

    def _behavior(self, area: _Area, agent: str) -> Behavior:
        """The behaviour of an agent; a new one if its spaces are."""
        known = self._behavior_of.get(agent)
        if known is not None:
            return known
        spaces = (area.env.observation_space(agent), area.env.action_space(agent))
        behavior = next((b for b in self._behaviors.values() if b.spaces == spaces), None)
        if behavior is None:
            behavior = self._new_behavior(area, agent, spaces)
            self._behaviors[behavior.name] = behavior
            self._waiting[behavior.name], self._ended[behavior.name] = [], []
        self._behavior_of[agent] = behavior
        return behavior

    def _new_behavior(self, area: _Area, agent: str, spaces: tuple[Any, Any]) -> Behavior:
        try:
            seen, acts = sensors(spaces[0], images=self._images), actor(spaces[1])
        except UnsupportedSpaceError as error:
            raise UnsupportedSpaceError(f"The agent {agent!r} of {area.env}: {error}") from error
        specs = [sensor.spec for sensor in seen]
        state = self._state(area)
        if state is not None:
            specs.append(
                ObservationSpec(state.shape, (DimensionProperty.NONE,), ObservationType.DEFAULT, STATE)
            )
        name = _behavior_name(agent, self._behaviors)
        return Behavior(
            name, len(self._behaviors), spaces, BehaviorSpec(specs, acts.spec), seen, acts,
            with_extra=state is not None,
        )  # fmt: skip


def _behavior_name(agent: str, taken: Sequence[str] | Mapping[str, Any]) -> str:
    """`agent_0` is the first of the behaviour `agent`; `agent2` if others have that name already."""
    stem = agent.rstrip("0123456789").rstrip("_- ") or "agent"
    names = [stem, *(f"{stem}{k}" for k in range(2, len(taken) + 2))]
    return next(f"{name}?team=0" for name in names if f"{name}?team=0" not in taken)
