"""Rewards over the running deviation of the discounted return (Engstrom et al. 2020, arXiv 2005.12729)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....agent_processor.trajectory import AgentKey, Rollout

SMALLEST = 1e-8
"""Added to the variance: where nothing has been earned yet, nothing is divided by zero."""


class RewardScale:
    """Follows what each agent has earned, discounted, since its episode began; S reward signals."""

    def __init__(self, gammas: Sequence[float]) -> None:
        self._gammas = np.array(gammas, np.float64)
        self._sums: dict[AgentKey, NDArray[np.float64]] = {}
        self.count = 0
        self.mean = np.zeros(len(gammas))
        self.squares = np.zeros(len(gammas))
        """[S] sum of the squared deviations from the mean."""

    def add(self, rollout: Rollout, rewards: NDArray[np.float32]) -> None:
        """Count the steps of these trajectories; `rewards` is [steps, S].

        The return of a step is the discounted sum of the rewards until then, as of
        `G <- gamma G + r`: what is behind it is not known yet.
        """
        start = 0
        flags = zip(rollout.agents, rollout.lengths.tolist(), rollout.episode_over.tolist())
        for agent, length, over in flags:
            earned = self._sums.pop(agent, None)
            earned = np.zeros(len(self._gammas)) if earned is None else earned
            returns = np.empty((length, len(self._gammas)))
            for t, reward in enumerate(rewards[start : start + length].astype(np.float64)):
                earned = self._gammas * earned + reward
                returns[t] = earned
            start += length
            self._take_in(returns)
            if not over:
                self._sums[agent] = earned

    def _take_in(self, returns: NDArray[np.float64]) -> None:
        """Renew the moments by [k, S] returns (Chan et al. 1979)."""
        k, mean = len(returns), returns.mean(axis=0)
        total = self.count + k
        self.squares += ((returns - mean) ** 2).sum(axis=0)
        self.squares += (mean - self.mean) ** 2 * self.count * k / total
        self.mean += (mean - self.mean) * k / total
        self.count = total

    def deviation(self) -> NDArray[np.float32]:
        """[S] the deviation of the returns so far; 1 before any."""
        if self.count == 0:
            return np.ones(len(self._gammas), np.float32)
        return np.sqrt(self.squares / self.count + SMALLEST).astype(np.float32)

    def forget(self, env: int | None, agent_ids: NDArray[np.int32] | None) -> None:
        """The unfinished episodes of all agents, of one environment's or of some of it will never end."""
        ids = None if agent_ids is None else set(agent_ids.tolist())
        for agent in list(self._sums):
            if env is None or (agent.env == env and (ids is None or agent.agent in ids)):
                del self._sums[agent]

    def state_dict(self) -> dict[str, Any]:
        """What outlives unfinished episodes."""
        return {"count": self.count, "mean": self.mean.tolist(), "squares": self.squares.tolist()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.count = int(state["count"])
        self.mean, self.squares = np.array(state["mean"]), np.array(state["squares"])
        self._sums.clear()
