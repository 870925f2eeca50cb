"""An engine as a PettingZoo parallel environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlagents_envs.base_env import BaseEnv
from pettingzoo import ParallelEnv

from .errors import UnityGymException, must_reset
from .pettingzoo import METADATA, AgentRegistry, AgentRegistryEnv, title


class UnityParallelEnv(AgentRegistryEnv, ParallelEnv):  # type: ignore[misc]
    """All agents of a BaseEnv as a `pettingzoo.ParallelEnv`.

    Agents are slots, such as `3DBall?team=0?agent_id=3`. An agent whose episode has ended leaves `agents`
    until the next reset. A step lasts until an agent requests a decision or an episode ends; an agent that
    requests none has `asks` False in its info, the reward 0, and its previous observation.

    `infos` contain `behavior_name`; `agent_id`, the engine's id of the agent; `group_id`;
    `group_reward`; `asks`; `interrupted` when an episode has ended; and `action_mask` if there are branches
    next to continuous actions. Otherwise the mask is part of the observation.
    """

    def __init__(self, env: BaseEnv, seed: int | None = None, *, add_group_reward: bool = False) -> None:
        """Reset the engine and read its behaviors.

        Args:
            env: Any engine.
            seed: Seeds the action spaces' `sample`.
            add_group_reward: Add the group's reward to the agents' own.

        Raises:
            UnityGymException: A behavior has no observations or no actions.
        """
        self._registry = AgentRegistry(env, seed, add_group_reward)
        self.metadata = {**METADATA, "name": title(env), "is_parallelizable": True}
        self.render_mode = None
        self.agents: list[str] = []

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Restart all episodes.

        Args:
            seed: Seeds the engine, which is restarted for it if this package launched it.
            options: `parameters`: a dict of values for the engine's environment parameters.

        Returns:
            Observations and infos.

        Raises:
            UnityGymException: The environment is closed.
        """
        result = self._registry.reset(seed, options)
        self.agents = self._registry.live_agents
        return result.observations, result.infos

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Send the agents' actions and step the engine.

        Args:
            actions: For every agent in `agents`; agents that request no decision may be left out.

        Returns:
            Observations, rewards, terminations, truncations and infos.

        Raises:
            UnityGymException: The environment is closed, no agent is alive, an agent is unknown or has no
                action, or an action is not in its space.
        """
        _ = self._registry.env  # closed?
        if not self.agents:
            raise must_reset("You are calling step(), but no agent is alive.")
        missing = [agent for agent in self.agents if agent not in actions and self._registry.asks(agent)]
        if missing:
            raise UnityGymException(f"step() needs an action for every agent; missing: {', '.join(missing)}.")
        for agent, action in actions.items():
            self._registry.choose(agent, action)
        result = self._registry.step()
        self.agents = self._registry.live_agents
        return result.observations, result.rewards, result.terminations, result.truncations, result.infos
