"""An engine as a PettingZoo environment in which agents act in turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlagents_envs.base_env import BaseEnv
from pettingzoo import AECEnv

from .errors import must_reset
from .pettingzoo import METADATA, AgentRegistry, AgentRegistryEnv, StepResult, title


class UnityAECEnv(AgentRegistryEnv, AECEnv):  # type: ignore[misc]
    """All agents of a BaseEnv as a `pettingzoo.AECEnv`.

    Agents, spaces and infos are those of `UnityParallelEnv`. Agents that request a decision act in turn;
    after the last of them the engine is stepped. An agent that requests none has no turn, so PettingZoo's
    conversion to a parallel environment, which expects every agent in every round, does not apply: use
    `UnityParallelEnv`.
    """

    def __init__(self, env: BaseEnv, seed: int | None = None, *, add_group_reward: bool = False) -> None:
        """Wrap an engine; the arguments are those of `UnityParallelEnv`."""
        super().__init__()
        self._registry = AgentRegistry(env, seed, add_group_reward)
        self.metadata = {**METADATA, "name": title(env), "is_parallelizable": False}
        self.render_mode = None
        self.agents: list[str] = []
        self.agent_selection = ""
        """The agent whose turn it is."""
        self._last = StepResult()
        self._turns: list[str] = []

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Restart all episodes, as `UnityParallelEnv.reset` does, but return nothing."""
        self._last = self._registry.reset(seed, options)
        self.agents = self._registry.live_agents
        self._skip_agent_selection = None
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self._show()

    def observe(self, agent: str) -> Any:
        """An agent's observation; the final one when its episode has ended."""
        return self._last.observations[agent]

    def step(self, action: Any) -> None:
        """Set the action of `agent_selection`, and step the engine after the last agent's turn.

        Args:
            action: One of the agent's action space; None if its episode has ended.

        Raises:
            UnityGymException: The environment is closed, no agent is alive, or the action is not in its
                space.
            ValueError: An agent whose episode has ended got an action.
        """
        _ = self._registry.env  # closed?
        if not self.agents:
            raise must_reset("You are calling step(), but no agent is alive.")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            if len(self.agents) > len(self._registry.live_agents):
                return  # other episodes have ended too
        else:
            self._registry.choose(agent, action)
            self._cumulative_rewards[agent] = 0.0
            self._turns.remove(agent)
            self._clear_rewards()
        if self._turns:
            self.agent_selection = self._turns[0]
        elif self.agents:
            self._step_engine()

    def _step_engine(self) -> None:
        """Step the engine with the chosen actions."""
        self._last = self._registry.step()
        self.agents = list(self._last.observations)
        for agent in self.agents:
            self._cumulative_rewards.setdefault(agent, 0.0)
        self._show()
        self._accumulate_rewards()
        self._deads_step_first()

    def _show(self) -> None:
        """Publish the last result, and queue the agents that request a decision."""
        last = self._last
        self.rewards, self.infos = dict(last.rewards), dict(last.infos)
        self.terminations, self.truncations = dict(last.terminations), dict(last.truncations)
        self._turns = [agent for agent in self._registry.live_agents if self._registry.asks(agent)]
        if self._turns:
            self.agent_selection = self._turns[0]
