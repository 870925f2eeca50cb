"""Reward scaling by the deviation of discounted returns (Engstrom et al. 2020, arXiv 2005.12729)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....agent_processor.trajectory import AgentKey, Rollout

EPSILON = 1e-8
"""Added to the variance, so that nothing is divided by zero before the first reward."""


class RewardScaler:
    """Tracks the discounted return of each agent since the start of its episode; S reward signals."""

    def __init__(self, gammas: Sequence[float]) -> None:
        self._gammas = np.array(gammas, np.float64)
        self._sums: dict[AgentKey, NDArray[np.float64]] = {}
        self.count = 0
        self.mean = np.zeros(len(gammas))
        self.squares = np.zeros(len(gammas))
        """[S] sum of the squared deviations from the mean."""

    def update(self, rollout: Rollout, rewards: NDArray[np.float32]) -> None:
        """Include the steps of these trajectories; `rewards` is [steps, S].

        The return of a step is the discounted sum of the rewards up to it, `G <- gamma G + r`: those after it
        are not known yet.
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
            self._update_moments(returns)
            if not over:
                self._sums[agent] = earned

    def _update_moments(self, returns: NDArray[np.float64]) -> None:
        """Merge the moments of [k, S] returns (Chan et al. 1979)."""
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
        return np.sqrt(self.squares / self.count + EPSILON).astype(np.float32)

    def reset_agents(self, env: int | None, agent_ids: NDArray[np.int32] | None) -> None:
        """Drop the returns of agents whose unfinished episodes will never end; None: all of them."""
        ids = None if agent_ids is None else set(agent_ids.tolist())
        for agent in list(self._sums):
            if env is None or (agent.env == env and (ids is None or agent.agent in ids)):
                del self._sums[agent]

    def state_dict(self) -> dict[str, Any]:
        """The moments; unfinished episodes are not saved."""
        return {"count": self.count, "mean": self.mean.tolist(), "squares": self.squares.tolist()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.count = int(state["count"])
        self.mean, self.squares = np.array(state["mean"]), np.array(state["squares"])
        self._sums.clear()
