"""What finished episodes have earned of late: the figures by which a run is judged."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

EPISODES = 100
"""The last finished episodes, whose mean is held against `stop_at_reward`."""
FEWEST = 10
"""Finished episodes without which a policy is not judged (`keep_best`): a few may be luck."""


class RewardRecord:
    """The rewards of episodes, in the order in which they finished."""

    def __init__(self, of_groups: bool = False) -> None:
        """`of_groups`: what is added is what groups have earned, and not single agents."""
        self.of_groups = of_groups
        self._recent: deque[float] = deque(maxlen=EPISODES)
        self._since, self._sum = 0, 0.0
        """Number and sum of those since the last judgement."""

    def add(self, reward: float) -> None:
        """An episode is finished."""
        self._recent.append(reward)
        self._since += 1
        self._sum += reward

    def recent_mean(self) -> float | None:
        """Mean of the last `EPISODES`; None before so many have finished."""
        return float(np.mean(self._recent)) if len(self._recent) == EPISODES else None

    def judge(self) -> float | None:
        """Mean of the episodes since the last judgement.

        None where they are fewer than `FEWEST`; they then count for the next one.
        """
        if self._since < FEWEST:
            return None
        mean = self._sum / self._since
        self._since, self._sum = 0, 0.0
        return mean

    def state_dict(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        return {"of_groups": self.of_groups, "recent": list(self._recent), "since": [self._since, self._sum]}

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> RewardRecord:
        """What `state_dict` was taken of."""
        record = cls(bool(state["of_groups"]))
        record._recent.extend(state["recent"])
        record._since, record._sum = state["since"]
        return record
