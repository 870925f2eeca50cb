"""Reward scaling by the deviation of discounted returns (Engstrom et al. 2020, arXiv 2005.12729)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...agent_processor.trajectory import AgentKey, Rollout
from ..settings.models.behavior import TrainerSettings

LARGEST_REWARD = 1e34
"""The largest reward: with larger ones returns could be infinite in float32, which may not be saved."""
EPSILON = 1e-8
"""Added to the variance, so that nothing is divided by zero before the first reward."""


class RewardScaler:
    """Tracks the discounted return of each agent since the start of its episode; S reward signals.

    Returns are counted as they are before the signals' strengths multiply them: these say what a signal
    counts beside the others, whatever the size of its rewards.
    """

    def __init__(self, gammas: Sequence[float], strengths: Sequence[float] | None = None) -> None:
        """`strengths` [S]: by which rewards are multiplied already; None: by 1."""
        self._gammas = np.array(gammas, np.float64)
        given = np.ones(len(gammas)) if strengths is None else np.array(strengths, np.float64)
        self._strengths = np.where(given == 0.0, 1.0, given)  # such rewards are zeros, whatever divides them
        self._sums: dict[AgentKey, NDArray[np.float64]] = {}
        self.steps = torch.zeros((), dtype=torch.int64)
        """The number of returns so far."""
        self.mean = torch.zeros(len(gammas), dtype=torch.float64)
        """[S] their mean."""
        self.squares = torch.zeros(len(gammas), dtype=torch.float64)
        """[S] the sum of their squared deviations from the mean."""

    @classmethod
    def of(
        cls, settings: TrainerSettings, signals: Sequence[str], gammas: Sequence[float]
    ) -> RewardScaler | None:
        """Of these signals of a behavior; None unless it normalizes rewards."""
        if not getattr(settings.hyperparameters, "normalize_rewards", False):
            return None
        return cls(gammas, [settings.reward_signals[signal].strength for signal in signals])

    def update(self, rollout: Rollout, rewards: NDArray[np.float32]) -> None:
        """Include the steps of these trajectories; `rewards` is [steps, S].

        The return of a step is the discounted sum of the rewards up to it, `G <- gamma G + r`: those after it
        are not known yet.
        """
        returns = self._returns(rollout, rewards.astype(np.float64) / self._strengths)
        for of_trajectory in np.split(returns, np.cumsum(rollout.lengths)[:-1]):
            self._update_moments(of_trajectory)

    def _returns(self, rollout: Rollout, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """The returns of all steps, [steps, S]; those of different agents are summed at once."""
        returns, none = np.empty_like(rewards), np.zeros(len(self._gammas))
        starts, over = np.cumsum(rollout.lengths) - rollout.lengths, rollout.episode_over
        for turn in _turns(rollout.agents):
            which = turn[np.argsort(-rollout.lengths[turn], kind="stable")]
            earned = np.stack([self._sums.pop(rollout.agents[j], none) for j in which])
            lengths = rollout.lengths[which]
            for t in range(lengths[0]):
                n = np.count_nonzero(lengths > t)
                rows = starts[which[:n]] + t
                earned[:n] = self._gammas * earned[:n] + rewards[rows]
                returns[rows] = earned[:n]
            self._sums |= {rollout.agents[j]: one.copy() for j, one in zip(which, earned) if not over[j]}
        return returns

    def _update_moments(self, returns: NDArray[np.float64]) -> None:
        """Merge the moments of [k, S] returns (Chan et al. 1979)."""
        k, mean, squares = len(returns), self.mean.numpy(), self.squares.numpy()
        count, shift = int(self.steps), returns.mean(axis=0) - mean
        squares += ((returns - returns.mean(axis=0)) ** 2).sum(axis=0)
        squares += shift**2 * count * k / (count + k)
        mean += shift * k / (count + k)
        self.steps += k

    def deviation(self, other: RewardScaler | None = None, share: float = 0.0) -> NDArray[np.float32]:
        """[S] the deviation of the returns so far, by which rewards are divided; 1 before any.

        With `other`, that of a mixture, of which `share` is the returns that it has seen.
        """
        if not self.steps:
            return np.ones(len(self._gammas), np.float32)
        variance = self.squares / self.steps
        if other is not None:
            distance = other.mean - self.mean
            variance = (1.0 - share) * variance + share * other.squares / other.steps
            variance = variance + share * (1.0 - share) * distance**2
        return (variance + EPSILON).sqrt().numpy().astype(np.float32)

    def reset_agents(self, env: int | None, agent_ids: NDArray[np.int32] | None) -> None:
        """Drop the returns of agents whose unfinished episodes will never end; None: all of them."""
        ids = None if agent_ids is None else set(agent_ids.tolist())
        for agent in list(self._sums):
            if env is None or (agent.env == env and (ids is None or agent.agent in ids)):
                del self._sums[agent]

    def reset(self) -> None:
        """Start over, as if there had been no reward."""
        for moment in (self.steps, self.mean, self.squares):
            moment.zero_()
        self._sums.clear()

    def state_dict(self) -> dict[str, Any]:
        """The moments; unfinished episodes are not saved."""
        return {"count": int(self.steps), "mean": self.mean.tolist(), "squares": self.squares.tolist()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.steps.fill_(int(state["count"]))
        self.mean.copy_(torch.tensor(state["mean"], dtype=torch.float64))
        self.squares.copy_(torch.tensor(state["squares"], dtype=torch.float64))
        self._sums.clear()


def _turns(agents: Sequence[AgentKey]) -> list[NDArray[np.int64]]:
    """The indices of the first trajectories of all agents, those of the second ones, and so on."""
    turns: list[list[int]] = []
    met: Counter[AgentKey] = Counter()
    for j, agent in enumerate(agents):
        if met[agent] == len(turns):
            turns.append([])
        turns[met[agent]].append(j)
        met[agent] += 1
    return [np.array(turn, np.int64) for turn in turns]
