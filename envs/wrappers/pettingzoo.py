"""An engine's agents as PettingZoo's: by name, and done when their episode has ended.

Shared by the parallel and the AEC environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np
from gymnasium import spaces
from mlagents_envs.base_env import ActionTuple, BaseEnv
from numpy.typing import NDArray

from ..python.action_spaces import ACTION_MASK
from ..side_channels import SideChannel
from .actions import ActionConverter
from .agents import SlottedAgents
from .errors import UnityGymException
from .spaces import sensor_observations
from .stepper import EngineStepper

OBSERVATION = "observation"


class BehaviorAgents:
    """One behavior's agents, each of which is done after one episode, until the next reset."""

    def __init__(self, batch: SlottedAgents) -> None:
        """Start without a living agent.

        Raises:
            UnityGymException: There are no observations or no actions.
        """
        self.batch = batch
        self.actions = ActionConverter(batch.spec.action_spec)
        self.names: list[str] = []
        self.alive: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """[slots] Whether the agent's episode is running."""
        self.done: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """[slots] Whether the agent's episode has ended; a new agent in its slot stays hidden."""
        self._observations = sensor_observations(batch.spec.observation_specs)
        spec = batch.spec.action_spec
        self._masked = bool(spec.discrete_branches) and not spec.continuous_size
        """Whether the mask is part of the observation. Next to continuous actions it is in the info, because
        its None for these fits in no space."""

    def reset(self) -> None:
        """Restart all episodes."""
        self.alive[:] = self.done[:] = False

    def add_agents(self) -> list[str]:
        """Name the slots that are new; return their names."""
        new = [f"{self.batch.name}?agent_id={slot}" for slot in range(len(self.names), len(self.batch))]
        self.names += new
        none = np.zeros(len(new), np.bool_)
        self.alive, self.done = np.append(self.alive, none), np.append(self.done, none)
        return new

    def activate(self) -> None:
        """Mark agents alive that request their first decision."""
        self.alive = self.alive | (self.batch.asks & ~self.done)

    def ended(self) -> NDArray[np.bool_]:
        """[slots] The agents whose episode ended in this step."""
        return self.alive & (self.batch.terminated | self.batch.truncated)

    def remove_done(self) -> None:
        """Mark the agents done whose episode ended in this step."""
        over = self.ended()
        self.alive, self.done = self.alive & ~over, self.done | over

    def has_news(self) -> bool:
        """Whether there is a new agent, a decision request, or the end of an episode."""
        if len(self.names) < len(self.batch):
            return True
        return bool((self.ended() | (self.batch.asks & ~self.done)).any())

    def zero_actions(self) -> ActionTuple:
        """Zeros for every slot."""
        action: ActionTuple = self.batch.spec.action_spec.empty_action(len(self.batch))
        return action

    def observation_space(self) -> Any:
        """An agent's observation space: a Box, or a Dict of several sensors by name.

        With branches but no continuous actions, it is a Dict of that as `observation`, and of `action_mask`:
        int8 [size], 1 for allowed actions, or a Tuple of such for several branches.
        """
        if not self._masked:
            return self._observations.space
        sizes = self.batch.spec.action_spec.discrete_branches
        masks = [spaces.Box(0, 1, (size,), np.int8) for size in sizes]
        mask = masks[0] if len(masks) == 1 else spaces.Tuple(masks)
        return spaces.Dict({OBSERVATION: self._observations.space, ACTION_MASK: mask})

    def observations(self, slots: NDArray[np.intp]) -> list[Any]:
        """The observations in some slots; the final ones for episodes that ended in this step."""
        obs = self._with_ends()
        values = self._observations.convert([array[slots] for array in obs])
        rows = [self._observations.row(values, row) for row in range(len(slots))]
        if not self._masked:
            return rows
        return [{OBSERVATION: row, ACTION_MASK: self._mask(slot)} for row, slot in zip(rows, slots)]

    def info(self, slot: int) -> dict[str, Any]:
        """The info of a slot's agent."""
        batch = self.batch
        over = bool(self.ended()[slot])
        info: dict[str, Any] = {
            "behavior_name": batch.name,
            "agent_id": self._last_holder(slot) if over else int(batch.slots.holders[slot]),
            "group_id": max(0, int(batch.slots.groups[slot])),
            "group_reward": float(batch.group_reward[slot]),
            "asks": bool(batch.asks[slot]) and not over,
        }
        if over:
            info["interrupted"] = bool(batch.truncated[slot])
        elif batch.forbidden and not self._masked:
            info["action_mask"] = self._mask(slot)
        return info

    def _last_holder(self, slot: int) -> int:
        """The id of the agent whose episode has ended in this step."""
        ids = [ended.agent_id[ended.slots == slot] for ended in self.batch.ended]
        return int(np.concatenate(ids)[0])

    def _with_ends(self) -> list[NDArray[Any]]:
        """The observations [n, *shape] per sensor, with final ones instead of those of the next episode."""
        over = self.ended()
        obs = self.batch.obs
        if not over.any():
            return obs
        obs = [array.copy() for array in obs]
        for ended in self.batch.ended:
            shown = over[ended.slots]
            for array, last in zip(obs, ended.obs):
                array[ended.slots[shown]] = last[shown]
        return obs

    def _mask(self, slot: int) -> Any:
        """The slot's action mask; everything is allowed when the episode has ended."""
        over = self.ended()[slot]
        closed = [np.zeros_like(mask[slot]) if over else mask[slot] for mask in self.batch.forbidden]
        return self.actions.mask(closed)


@dataclass
class StepResult:
    """The result of a step, by agent name."""

    observations: dict[str, Any] = field(default_factory=dict)
    rewards: dict[str, float] = field(default_factory=dict)
    terminations: dict[str, bool] = field(default_factory=dict)
    truncations: dict[str, bool] = field(default_factory=dict)
    infos: dict[str, dict[str, Any]] = field(default_factory=dict)


class AgentRegistry:
    """The agents of a BaseEnv by names such as `3DBall?team=0?agent_id=3`: behavior and slot.

    As PettingZoo expects, an agent whose episode has ended is done until the next reset. The engine starts
    its next episode nevertheless; the agent's actions are then zeros, and its rewards are not reported.
    """

    def __init__(self, env: BaseEnv, seed: int | None = None, add_group_reward: bool = False) -> None:
        """Reset the engine and read its behaviors.

        Args:
            env: Any engine.
            seed: Seeds the action spaces' `sample`.
            add_group_reward: Add the group's reward to the agents' own.

        Raises:
            UnityGymException: A behavior has no observations or no actions.
        """
        self._stepper = EngineStepper(env)
        self._seed = seed
        self._add_group_reward = add_group_reward
        self._behaviors: dict[str, BehaviorAgents] = {}
        self._location: dict[str, tuple[BehaviorAgents, int]] = {}
        self.observation_spaces: dict[str, Any] = {}
        self.action_spaces: dict[str, Any] = {}
        self._chosen: dict[str, ActionTuple] = {}
        self._add_new_agents()

    @property
    def env(self) -> BaseEnv:
        """The engine. Raises UnityGymException if the environment is closed."""
        return self._stepper.env

    @property
    def possible(self) -> list[str]:
        """All agents that have existed so far, also those whose episode has not started."""
        return list(self._location)

    @property
    def live_agents(self) -> list[str]:
        """The agents whose episode is running."""
        return [name for name, (behavior, slot) in self._location.items() if behavior.alive[slot]]

    @property
    def side_channel(self) -> dict[str, SideChannel]:
        """The side channels by class name; empty unless this package launched the engine."""
        return self._stepper.side_channel

    def asks(self, agent: str) -> bool:
        """Whether an agent is alive and requests a decision."""
        behavior, slot = self._location[agent]
        return behavior.alive[slot] and bool(behavior.batch.asks[slot])

    def reset(self, seed: int | None, options: Mapping[str, Any] | None) -> StepResult:
        """Restart all episodes; see `EngineStepper.reset`."""
        self._stepper.reset(seed, options)
        for behavior in self._behaviors.values():
            behavior.reset()
        self._chosen.clear()
        self._add_new_agents()
        return self._result()

    def choose(self, agent: str, action: Any) -> None:
        """Set an agent's action for the next step; it is ignored if the agent requests no decision.

        Raises:
            UnityGymException: There is no such agent, it is not alive, or the action is not in its space.
        """
        if agent not in self._location:
            near = get_close_matches(str(agent), self._location, n=1)
            known = f"did you mean {near[0]!r}?" if near else f"the agents are {', '.join(self.live_agents)}."
            raise UnityGymException(f"There is no agent {agent!r}; {known}")
        behavior, slot = self._location[agent]
        if not behavior.alive[slot]:
            raise UnityGymException(
                f"The agent {agent!r} got an action, but its episode has ended: give none, or call reset()."
            )
        name = behavior.batch.name
        if name not in self._chosen:
            self._chosen[name] = behavior.zero_actions()
        chosen = behavior.actions.convert_one(action, whose=f" of the agent {agent!r}")
        if chosen.continuous.shape[1]:
            self._chosen[name].continuous[slot] = chosen.continuous[0]
        if chosen.discrete.shape[1]:
            self._chosen[name].discrete[slot] = chosen.discrete[0]

    def step(self) -> StepResult:
        """Step the engine until a live agent requests a decision, or an episode has ended.

        Returns:
            The result for the agents that were alive when the step started, and for new ones.

        Raises:
            UnityGymException: The environment is closed.
        """
        actions = {
            name: self._chosen.get(name) or each.zero_actions() for name, each in self._behaviors.items()
        }
        self._chosen = {}
        self._stepper.step(actions, self._has_news)
        self._add_new_agents()
        result = self._result()
        for behavior in self._behaviors.values():
            behavior.remove_done()
        return result

    def close(self) -> None:
        """Close the engine; does nothing if it is closed."""
        self._stepper.close()

    def _has_news(self) -> bool:
        """Whether there is a new agent, a decision request, or the end of an episode."""
        if len(self._behaviors) < len(self._stepper.batches):
            return True
        return any(behavior.has_news() for behavior in self._behaviors.values())

    def _add_new_agents(self) -> None:
        """Add the agents that the engine reports for the first time."""
        for name, batch in self._stepper.batches.items():
            if name not in self._behaviors:
                self._behaviors[name] = BehaviorAgents(batch)
            behavior = self._behaviors[name]
            for agent in behavior.add_agents():
                self._add_agent(agent, behavior)
            behavior.activate()

    def _add_agent(self, agent: str, behavior: BehaviorAgents) -> None:
        self._location[agent] = (behavior, behavior.names.index(agent))
        self.observation_spaces[agent] = behavior.observation_space()
        self.action_spaces[agent] = ActionConverter(behavior.batch.spec.action_spec).space
        if self._seed is not None:
            self.action_spaces[agent].seed(self._seed + len(self._location) - 1)

    def _result(self) -> StepResult:
        """The result for the agents that are alive, or were until this step."""
        result = StepResult()
        for behavior in self._behaviors.values():
            slots = np.flatnonzero(behavior.alive)
            if not len(slots):
                continue
            batch = behavior.batch
            rewards = batch.reward + batch.group_reward if self._add_group_reward else batch.reward
            ended = behavior.ended()
            for slot, observation in zip(slots, behavior.observations(slots)):
                agent = behavior.names[slot]
                result.observations[agent] = observation
                result.rewards[agent] = float(rewards[slot])
                result.terminations[agent] = bool(ended[slot] and batch.terminated[slot])
                result.truncations[agent] = bool(ended[slot] and batch.truncated[slot])
                result.infos[agent] = behavior.info(int(slot))
        return result


class AgentRegistryEnv:
    """What `UnityParallelEnv` and `UnityAECEnv` have in common: agents, spaces, side channels."""

    _registry: AgentRegistry

    @property
    def possible_agents(self) -> list[str]:
        """All agents that have existed so far; grows when the engine reports more at once."""
        return self._registry.possible

    @property
    def observation_spaces(self) -> dict[str, Any]:
        """The observation space of each possible agent, by name."""
        return self._registry.observation_spaces

    @property
    def action_spaces(self) -> dict[str, Any]:
        """The action space of each possible agent, by name."""
        return self._registry.action_spaces

    def observation_space(self, agent: str) -> Any:
        """An agent's observation space."""
        return self._registry.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """An agent's action space."""
        return self._registry.action_spaces[agent]

    @property
    def side_channel(self) -> dict[str, SideChannel]:
        """The side channels by class name; empty unless this package launched the engine."""
        return self._registry.side_channel

    def render(self) -> None:
        """Do nothing: engines draw their own windows."""

    def close(self) -> None:
        """Close the engine; does nothing if it is closed."""
        self._registry.close()


METADATA: dict[str, Any] = {"render_modes": []}


def title(env: BaseEnv) -> str:
    """A name for logs: the engine's file or scene if known."""
    return str(getattr(env, "name", None) or type(env).__name__)
