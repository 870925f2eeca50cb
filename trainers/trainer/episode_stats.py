"""Rewards of the running episodes, which are reported when these end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...agent_processor.queues import StatsSink
from ...agent_processor.trajectory import AgentKey, Rollout
from ...envs.base import StatsAggregationMethod
from ..stats.earned import GROUP_REWARD, REWARD, RewardHistory

ENVIRONMENT = "environment"
"""The key of the plain individual reward, beside the reward signals' names."""


OnEpisode = Callable[[AgentKey, str, float, float | None, int], None]
"""Called with a finished episode: agent, seat, return, its group's if that has ended too, and decisions."""


class EpisodeStats:
    """Sums rewards per agent and reports them when the episode ends."""

    def __init__(
        self, signals: list[str], returns_kept: int = 1, *, groups: bool = False, by_seat: bool = True
    ) -> None:
        """Start without any episode.

        Args:
            signals: the names of the reward signals.
            returns_kept: how many of the last returns the history keeps one by one.
            groups: report what groups earn even where that is nothing.
            by_seat: the behavior's teams are compared by the mean over them; else all episodes count alike.
        """
        self.sums: dict[AgentKey, NDArray[np.float64]] = {}
        self.names = [ENVIRONMENT, *signals]
        self.groups = groups
        self._by_seat = by_seat
        self.by_worker = False
        """Report the returns of each environment's episodes separately too."""
        self.on_episode: OnEpisode | None = None
        """Called with every finished episode."""
        self.history = RewardHistory(kept=returns_kept)

    def expect(self, behavior_id: str) -> None:
        """Episodes of this team of the behavior are to come."""
        self.history.expect(self._seat(behavior_id))

    def _seat(self, behavior_id: str) -> str:
        return behavior_id if self._by_seat else ""

    def add(self, rollout: Rollout, rewards: Mapping[str, NDArray[np.float32]], stats: StatsSink) -> None:
        """Count the trajectories of `rollout` but opponents'; `rewards` holds [steps] per signal, scaled."""
        own = slice(rollout.steps)
        signals = [rewards[name] for name in self.names[1:]]
        lengths = np.ones(rollout.steps)
        columns = np.stack([rollout.reward[own], *signals, rollout.group_reward[own], lengths], axis=1)
        starts = np.cumsum(rollout.lengths) - rollout.lengths
        sums = np.add.reduceat(columns.astype(np.float64), starts, axis=0)
        counted = [True] * len(sums) if rollout.counts_group is None else rollout.counts_group.tolist()
        flags = zip(rollout.episode_over.tolist(), rollout.all_group_dones.tolist(), counted)
        opponents = [False] * len(sums) if rollout.of_opponent is None else rollout.of_opponent.tolist()
        for agent, behavior_id, earned, (done, all_done, counts), opponent in zip(
            rollout.agents, rollout.behavior_ids, sums, flags, opponents, strict=True
        ):
            if opponent:
                continue
            total = self.sums.pop(agent, 0.0) + earned
            if done:
                self._report(agent, self._seat(behavior_id), total, all_done, all_done and counts, stats)
            else:
                self.sums[agent] = total

    def _report(
        self,
        agent: AgentKey,
        seat: str,
        total: NDArray[np.float64],
        all_done: bool,
        counts_group: bool,
        stats: StatsSink,
    ) -> None:
        """Report an agent's episode; of members that end together one counts the group, as tests do.

        Summaries have its reward once for each of them, as ML-Agents' do.
        """
        ret, of_group = float(total[0]), float(total[-2])
        self.history.add(seat, ret, of_group, ended=counts_group)
        stats.add_stat(REWARD, ret, StatsAggregationMethod.HISTOGRAM)
        if self.by_worker:
            stats.add_stat(
                f"Environment/Worker {agent.env}/Cumulative Reward", ret, StatsAggregationMethod.AVERAGE
            )
        for name, value in zip(self.names[1:], total[1:]):
            stats.add_stat(f"Policy/{name.capitalize()} Reward", float(value), StatsAggregationMethod.AVERAGE)
        if all_done and (self.groups or self.history.by_groups):
            stats.add_stat(GROUP_REWARD, of_group, StatsAggregationMethod.HISTOGRAM)
        if self.on_episode is not None:
            self.on_episode(agent, seat, ret, of_group if counts_group else None, round(total[-1]))

    def clear_history(self) -> None:
        """Clear the returns of finished episodes, which do not compare with later ones. Thread-safe."""
        self.history = self.history.cleared()

    def state_dict(self) -> dict[str, Any]:
        """The history; running episodes are not saved."""
        return {"record": self.history.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned, or an older version, which kept the last returns beside."""
        if "record" in state:
            self.history.load_state_dict(state["record"])
        if "returns" in state and not self.history.by_groups:  # those of groups were returns of their agents
            self.history.last.extend(state["returns"][: self.history.last.maxlen])

    def reset_agents(self, env: int | None = None, agent_ids: NDArray[np.int32] | None = None) -> None:
        """Drop unfinished episodes.

        Args:
            env: those of one environment; None for all.
            agent_ids: [n] only those of these agents.
        """
        if env is None:
            self.sums.clear()
            return
        if agent_ids is None:
            gone = [key for key in self.sums if key.env == env]
        else:
            gone = [AgentKey(env, agent) for agent in agent_ids.tolist()]
        for key in gone:
            self.sums.pop(key, None)
