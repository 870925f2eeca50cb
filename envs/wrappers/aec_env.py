"""An engine as an environment of PettingZoo in which agents act in turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlagents_envs.base_env import BaseEnv
from pettingzoo import AECEnv

from .errors import must_reset
from .pettingzoo import METADATA, Cast, ShownCast, Told, title


class UnityAECEnv(ShownCast, AECEnv):  # type: ignore[misc]
    """All agents of a BaseEnv as a `pettingzoo.AECEnv`.

    Agents, spaces and infos are those of `UnityParallelEnv`. Those who are asked for an action act in turn;
    after the last of them the engine is stepped. Who is not asked has no turn; so PettingZoo's conversion to
    a parallel environment, which wants everybody in every round, does not fit: take `UnityParallelEnv`.
    """

    def __init__(self, env: BaseEnv, seed: int | None = None, *, add_group_reward: bool = False) -> None:
        """As `UnityParallelEnv`."""
        super().__init__()
        self._cast = Cast(env, seed, add_group_reward)
        self.metadata = {**METADATA, "name": title(env), "is_parallelizable": False}
        self.render_mode = None
        self.agents: list[str] = []
        self.agent_selection = ""
        """Whose turn it is."""
        self._told = Told()
        self._turns: list[str] = []

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Let the engine begin all episodes anew. As `UnityParallelEnv.reset`, but it returns nothing."""
        self._told = self._cast.reset(seed, options)
        self.agents = self._cast.living
        self._skip_agent_selection = None
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self._take_over()

    def observe(self, agent: str) -> Any:
        """What an agent sees, or saw at the end of its episode."""
        return self._told.observations[agent]

    def step(self, action: Any) -> None:
        """Let `agent_selection` act, and the engine go on if it is the last to be asked.

        Args:
            action: Of the agent's action space; None for one whose episode has ended.

        Raises:
            UnityGymException: The environment is closed, nobody lives, or the action is not of its space.
            ValueError: One whose episode has ended got an action.
        """
        _ = self._cast.env  # closed?
        if not self.agents:
            raise must_reset("You are calling step(), but no agent lives.")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            if len(self.agents) > len(self._cast.living):
                return  # others have ended too
        else:
            self._cast.choose(agent, action)
            self._cumulative_rewards[agent] = 0.0
            self._turns.remove(agent)
            self._clear_rewards()
        if self._turns:
            self.agent_selection = self._turns[0]
        elif self.agents:
            self._go_on()

    def _go_on(self) -> None:
        """Let the engine take what was chosen, and go on."""
        self._told = self._cast.step()
        self.agents = list(self._told.observations)
        for newcomer in self.agents:
            self._cumulative_rewards.setdefault(newcomer, 0.0)
        self._take_over()
        self._accumulate_rewards()
        self._deads_step_first()

    def _take_over(self) -> None:
        """Show what was told, and let those who are asked have their turns."""
        told = self._told
        self.rewards, self.infos = dict(told.rewards), dict(told.infos)
        self.terminations, self.truncations = dict(told.terminations), dict(told.truncations)
        self._turns = [agent for agent in self._cast.living if self._cast.asks(agent)]
        if self._turns:
            self.agent_selection = self._turns[0]
