"""An engine as a parallel environment of PettingZoo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlagents_envs.base_env import BaseEnv
from pettingzoo import ParallelEnv

from .errors import UnityGymException, must_reset
from .pettingzoo import METADATA, Cast, ShownCast, title


class UnityParallelEnv(ShownCast, ParallelEnv):  # type: ignore[misc]
    """All agents of a BaseEnv as a `pettingzoo.ParallelEnv`.

    Agents are slots, such as `3DBall?team=0?agent_id=3`. One whose episode has ended leaves `agents` until
    the next reset. A step lasts until an agent is asked for an action or an episode has ended; who is not
    asked has False in its info's `asks`, the reward 0, and its observation as it was.

    `infos` have `behavior_name`; `agent_id`, the engine's id of the agent and episode; `group_id`;
    `group_reward`; `asks`; `interrupted` where an episode has ended; and `action_mask` where there are
    branches beside continuous actions. Elsewhere the mask is in the observation.
    """

    def __init__(self, env: BaseEnv, seed: int | None = None, *, add_group_reward: bool = False) -> None:
        """Reset the engine and look at what it shows.

        Args:
            env: Any engine.
            seed: Of the action spaces' `sample`.
            add_group_reward: The group's reward is added to the agents' own.

        Raises:
            UnityGymException: A behaviour has nothing to see or to do.
        """
        self._cast = Cast(env, seed, add_group_reward)
        self.metadata = {**METADATA, "name": title(env), "is_parallelizable": True}
        self.render_mode = None
        self.agents: list[str] = []

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Let the engine begin all episodes anew.

        Args:
            seed: Of the engine's chance from now on: an engine that this package launched is started again.
            options: `parameters`: a dict of values for the engine's environment parameters.

        Returns:
            Observations and infos.

        Raises:
            UnityGymException: The environment is closed.
        """
        told = self._cast.reset(seed, options)
        self.agents = self._cast.living
        return told.observations, told.infos

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Let the agents act.

        Args:
            actions: Of every agent in `agents`; those of agents who are not asked may be left out.

        Returns:
            Observations, rewards, terminations, truncations and infos.

        Raises:
            UnityGymException: The environment is closed, nobody lives, an agent is unknown or without an
                action, or an action is not of its space.
        """
        _ = self._cast.env  # closed?
        if not self.agents:
            raise must_reset("You are calling step(), but no agent lives.")
        missing = [agent for agent in self.agents if agent not in actions and self._cast.asks(agent)]
        if missing:
            raise UnityGymException(f"step() needs an action of every agent; missing: {', '.join(missing)}.")
        for agent, action in actions.items():
            self._cast.choose(agent, action)
        told = self._cast.step()
        self.agents = self._cast.living
        return told.observations, told.rewards, told.terminations, told.truncations, told.infos
