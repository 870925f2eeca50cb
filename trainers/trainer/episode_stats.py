"""Rewards of the running episodes, and statistics of the finished ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...agent_processor.queues import StatsSink
from ...agent_processor.trajectory import AgentKey, Rollout
from ...envs.base import StatsAggregationMethod

ENVIRONMENT = "environment"
"""The key of the plain individual reward, beside the reward signals' names."""


OnEpisode = Callable[[AgentKey, float, float | None, int], None]
"""Called with a finished episode: agent, return, its group's return if that has ended too, and decisions."""


class EpisodeStats:
    """Sums rewards per agent and reports them when the episode ends."""

    def __init__(
        self,
        signals: list[str],
        returns_kept: int = 1,
        *,
        groups: bool = False,
        most_since_update: int | None = None,
    ) -> None:
        """Start without any episode.

        Args:
            signals: the names of the reward signals.
            returns_kept: how many of the last returns are kept.
            groups: also sum group rewards, which are reported when the whole group has ended.
            most_since_update: how many of the last returns `mean_since_update` counts; None: all.
        """
        self.sums: dict[AgentKey, NDArray[np.float64]] = {}
        self.names = [ENVIRONMENT, *signals]
        self.groups = groups
        self.by_worker = False
        """Report the returns of each environment's episodes separately too."""
        self.recent_returns: deque[float] = deque(maxlen=max(1, returns_kept))
        """Returns of the last finished episodes, newest first."""
        self._finished_since_update: deque[float] = deque(maxlen=most_since_update)
        self.on_episode: OnEpisode | None = None
        """Called with every finished episode."""
        self.history = RewardHistory()
        """Returns by which policies are compared: of groups if they earn rewards, else of agents."""

    def add(self, rollout: Rollout, rewards: Mapping[str, NDArray[np.float32]], stats: StatsSink) -> None:
        """Count the trajectories of `rollout` but opponents'; `rewards` holds [steps] per signal, scaled."""
        own = slice(rollout.steps)
        of_group = [rollout.group_reward[own]] if self.groups else []
        lengths = np.ones(rollout.steps)
        columns = np.stack(
            [rollout.reward[own], *(rewards[n] for n in self.names[1:]), *of_group, lengths], axis=1
        )
        starts = np.cumsum(rollout.lengths) - rollout.lengths
        sums = np.add.reduceat(columns.astype(np.float64), starts, axis=0)
        flags = zip(rollout.episode_over.tolist(), rollout.all_group_dones.tolist())
        opponents = [False] * len(sums) if rollout.of_opponent is None else rollout.of_opponent.tolist()
        for agent, seat, earned, (done, all_done), opponent in zip(
            rollout.agents, rollout.behavior_ids, sums, flags, opponents, strict=True
        ):
            if opponent:
                continue
            total = self.sums.pop(agent, 0.0) + earned
            if done:
                self._report(agent, seat, total, all_done, stats)
            else:
                self.sums[agent] = total

    def _report(
        self, agent: AgentKey, seat: str, total: NDArray[np.float64], all_done: bool, stats: StatsSink
    ) -> None:
        ret, of_group = float(total[0]), float(total[-2]) if self.groups else 0.0
        self.recent_returns.appendleft(ret)
        self._finished_since_update.append(ret)
        stats.add_stat("Environment/Cumulative Reward", ret, StatsAggregationMethod.HISTOGRAM)
        if self.by_worker:
            stats.add_stat(
                f"Environment/Worker {agent.env}/Cumulative Reward", ret, StatsAggregationMethod.AVERAGE
            )
        for name, value in zip(self.names[1:], total[1:]):
            stats.add_stat(f"Policy/{name.capitalize()} Reward", float(value), StatsAggregationMethod.AVERAGE)
        if self.groups and all_done:
            key = "Environment/Group Cumulative Reward"
            stats.add_stat(key, of_group, StatsAggregationMethod.HISTOGRAM)
        self._keep_record(seat, ret, of_group, all_done)
        if self.on_episode is not None:
            ended_group = of_group if self.groups and all_done else None
            self.on_episode(agent, ret, ended_group, round(total[-1]))

    def _keep_record(self, seat: str, own: float, of_group: float, all_done: bool) -> None:
        if of_group and not self.history.of_groups:
            self.history = RewardHistory(of_groups=True)
        if not self.history.of_groups:
            self.history.add(seat, own)
        elif all_done:
            self.history.add(seat, of_group)

    def state_dict(self) -> dict[str, Any]:
        """The recent returns, newest first, and the history; running episodes are not saved."""
        return {"returns": list(self.recent_returns), "record": self.history.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned; checkpoints of older versions have no history."""
        self.recent_returns.clear()
        self.recent_returns.extend(state["returns"][: self.recent_returns.maxlen])
        if "record" in state:
            self.history = RewardHistory.from_state_dict(state["record"])

    def mean_since_update(self) -> float | None:
        """Mean return of the episodes that finished since the last policy update; None without any."""
        finished = self._finished_since_update
        return float(np.mean(finished)) if finished else None

    def clear_history(self) -> None:
        """Clear the returns of finished episodes, which do not compare with later ones. Thread-safe."""
        self.recent_returns.clear()
        self.history = RewardHistory(self.history.of_groups)

    def clear_since_update(self) -> None:
        """A policy update starts: clear the returns of the old policy."""
        self._finished_since_update.clear()

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


EPISODES = 100
"""The number of last episodes, of each seat, whose mean is compared with `stop_at_reward`."""
FEWEST = 10
"""The fewest finished episodes, of each seat, by which a policy is compared (`keep_best`)."""


class RewardHistory:
    """The returns of episodes, in the order in which they finished, apart for each seat.

    A seat is a behavior with its team. Means are taken over the seats' means: in a zero-sum game the seat
    whose episodes are counted first would otherwise decide.
    """

    def __init__(self, of_groups: bool = False) -> None:
        """`of_groups`: the returns are those of groups, not of single agents."""
        self.of_groups = of_groups
        self._recent: dict[str, deque[float]] = {}
        self._since: dict[str, list[float]] = {}
        """By seat, those since the last `next_mean`: number and sum."""

    def add(self, seat: str, reward: float) -> None:
        """Add the return of a finished episode."""
        self._recent.setdefault(seat, deque(maxlen=EPISODES)).append(reward)
        since = self._since.setdefault(seat, [0, 0.0])
        since[0] += 1
        since[1] += reward

    def recent_mean(self) -> float | None:
        """Mean of each seat's last `EPISODES`; None before so many of each have finished."""
        if not self._recent or any(len(returns) < EPISODES for returns in self._recent.values()):
            return None
        return float(np.mean([np.mean(returns) for returns in self._recent.values()]))

    def next_mean(self) -> float | None:
        """Mean of the episodes since the last call that returned one.

        None if those of a seat are fewer than `FEWEST`: a few may be luck. All then count for the next call.
        """
        if not self._since or any(number < FEWEST for number, _ in self._since.values()):
            return None
        means = [total / number for number, total in self._since.values()]
        self._since.clear()
        return float(np.mean(means))

    def state_dict(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        recent = {seat: list(returns) for seat, returns in self._recent.items()}
        since = {seat: list(numbers) for seat, numbers in self._since.items()}
        return {"of_groups": self.of_groups, "recent": recent, "since": since}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> RewardHistory:
        """Restore what `state_dict` returned; a history of older versions, without seats, starts anew."""
        record = cls(bool(state["of_groups"]))
        if isinstance(state["recent"], Mapping):
            record._recent = {seat: deque(old, EPISODES) for seat, old in state["recent"].items()}
            record._since = {seat: list(numbers) for seat, numbers in state["since"].items()}
        return record
