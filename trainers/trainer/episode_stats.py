"""Rewards of the running episodes, and the returns of finished ones, by which policies are compared."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...agent_processor.queues import StatsSink
from ...agent_processor.trajectory import AgentKey, Rollout
from ...envs.base import StatsAggregationMethod

EPISODES = 100
"""The number of last episodes whose mean is compared with `stop_at_reward`."""
FEWEST = 10
"""The fewest finished episodes by which a policy is compared (`keep_best`): a few may be luck."""
PATIENCE = 10 * EPISODES
"""Times the number of seats: after so many episodes without one of its own, a seat is not waited for."""


@dataclass(slots=True)
class SeatReturns:
    """The finished episodes of one seat."""

    of_groups: bool = False
    """The returns are those of groups, which earn rewards, not of single agents."""
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=EPISODES))
    number: int = 0
    """How many episodes of all seats had finished when its last one did, or when it was first expected."""
    count: int = 0
    total: float = 0.0
    """Number and sum of those since the last `RewardHistory.next_mean`."""

    def state_dict(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        since = [self.count, self.total]
        recent = list(self.recent)
        return {"of_groups": self.of_groups, "recent": recent, "number": self.number, "since": since}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> SeatReturns:
        """Restore what `state_dict` returned.

        Raises:
            KeyError, TypeError, ValueError: something else was saved.
        """
        count, total = state["since"]
        recent = deque(map(float, state["recent"]), EPISODES)
        return cls(bool(state["of_groups"]), recent, int(state["number"]), int(count), float(total))


class RewardHistory:
    """The returns of finished episodes by seat, which is a team of the behavior.

    Means are taken over the means of the seats, once each of them has enough episodes. Otherwise the seat
    whose episodes are counted first would decide a zero-sum game.
    """

    def __init__(self) -> None:
        """Start without any episode or seat."""
        self._seats: dict[str, SeatReturns] = {}
        self._saved: dict[str, SeatReturns] = {}
        """Those of a checkpoint that have not appeared again."""
        self._finished = 0

    def expect(self, seat: str) -> None:
        """Wait for episodes of this seat too."""
        if seat not in self._seats:
            self._seats[seat] = self._saved.pop(seat, SeatReturns(number=self._finished))

    def cleared(self) -> RewardHistory:
        """A history of the same seats without episodes."""
        new = RewardHistory()
        new._seats = {name: SeatReturns(seat.of_groups) for name, seat in self._seats.items()}
        return new

    def add(self, seat: str, of_agent: float, of_group: float = 0.0, *, ended: bool = True) -> None:
        """Add the returns of an agent's finished episode.

        Args:
            seat: whose.
            of_agent: what the agent earned itself.
            of_group: what its group earned meanwhile.
            ended: the whole group has ended.
        """
        self.expect(seat)
        if of_group and not self._seats[seat].of_groups:
            self._seats[seat] = SeatReturns(of_groups=True, number=self._finished)
        own = self._seats[seat]
        if own.of_groups and not ended:
            return
        returned = of_group if own.of_groups else of_agent
        self._finished += 1
        own.recent.append(returned)
        own.number = self._finished
        own.count += 1
        own.total += returned

    def _present(self) -> list[SeatReturns]:
        """The seats that are waited for, in an order that does not depend on who came first."""
        oldest = self._finished - PATIENCE * len(self._seats)
        return [self._seats[name] for name in sorted(self._seats) if self._seats[name].number >= oldest]

    def recent_mean(self) -> float | None:
        """Mean of each seat's last `EPISODES`; None before as many of each have finished."""
        present = self._present()
        if not present or any(len(seat.recent) < EPISODES for seat in present):
            return None
        return float(np.mean([np.mean(seat.recent) for seat in present]))

    def next_mean(self) -> float | None:
        """Mean of each seat's episodes since the last call that returned one.

        None if those of a seat are fewer than `FEWEST`; all then count for the next call.
        """
        present = self._present()
        if not present or any(seat.count < FEWEST for seat in present):
            return None
        mean = float(np.mean([seat.total / seat.count for seat in present]))
        for seat in self._seats.values():
            seat.count, seat.total = 0, 0.0
        return mean

    def state_dict(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        seats = {name: seat.state_dict() for name, seat in {**self._saved, **self._seats}.items()}
        return {"finished": self._finished, "seats": seats}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned; one of an older version, without seats, is empty.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: something else was saved.
        """
        known = list(self._seats)
        self._seats, self._saved, self._finished = {}, {}, 0
        if "seats" in state:
            self._finished = int(state["finished"])
            self._saved = {
                str(name): SeatReturns.from_state_dict(seat) for name, seat in state["seats"].items()
            }
        for seat in known:
            self.expect(seat)


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
        by_seat: bool = True,
        most_since_update: int | None = None,
    ) -> None:
        """Start without any episode.

        Args:
            signals: the names of the reward signals.
            returns_kept: how many of the last returns are kept.
            groups: also sum group rewards, which are reported when the whole group has ended.
            by_seat: the behavior's teams are compared by the mean over them; else all episodes count alike.
            most_since_update: how many of the last returns `mean_since_update` counts; None: all.
        """
        self.sums: dict[AgentKey, NDArray[np.float64]] = {}
        self.names = [ENVIRONMENT, *signals]
        self.groups = groups
        self._by_seat = by_seat
        self.by_worker = False
        """Report the returns of each environment's episodes separately too."""
        self.recent_returns: deque[float] = deque(maxlen=max(1, returns_kept))
        """Returns of the last finished episodes, newest first."""
        self._finished_since_update: deque[float] = deque(maxlen=most_since_update)
        self.on_episode: OnEpisode | None = None
        """Called with every finished episode."""
        self.history = RewardHistory()
        """Returns by which policies are compared: of groups if they earn rewards, else of agents."""

    def expect(self, behavior_id: str) -> None:
        """Episodes of this team of the behavior are to come."""
        self.history.expect(self._seat(behavior_id))

    def _seat(self, behavior_id: str) -> str:
        return behavior_id if self._by_seat else ""

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
        for agent, behavior_id, earned, (done, all_done), opponent in zip(
            rollout.agents, rollout.behavior_ids, sums, flags, opponents, strict=True
        ):
            if opponent:
                continue
            total = self.sums.pop(agent, 0.0) + earned
            if done:
                self._report(agent, self._seat(behavior_id), total, all_done, stats)
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
        self.history.add(seat, ret, of_group, ended=all_done)
        if self.on_episode is not None:
            ended_group = of_group if self.groups and all_done else None
            self.on_episode(agent, ret, ended_group, round(total[-1]))

    def state_dict(self) -> dict[str, Any]:
        """The recent returns, newest first, and the history; running episodes are not saved."""
        return {"returns": list(self.recent_returns), "record": self.history.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned; checkpoints of older versions have no history."""
        self.recent_returns.clear()
        self.recent_returns.extend(state["returns"][: self.recent_returns.maxlen])
        if "record" in state:
            self.history.load_state_dict(state["record"])

    def mean_since_update(self) -> float | None:
        """Mean return of the episodes that finished since the last policy update; None without any."""
        finished = self._finished_since_update
        return float(np.mean(finished)) if finished else None

    def clear_history(self) -> None:
        """Clear the returns of finished episodes, which do not compare with later ones. Thread-safe."""
        self.recent_returns.clear()
        self.history = self.history.cleared()

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
