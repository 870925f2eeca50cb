"""The agents of scenes in which each is on its own: no groups."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..wire.engine_codec import AgentBatch
from .batches import Ended, without_groups

Indices = NDArray[np.intp]
Observations = Sequence[NDArray[np.float32]]


class Soloists:
    """What each of n agents has earned since it was last told, whose episodes ended, and who asks.

    An agent keeps its id, as in Unity, also where it changes its behaviour between two episodes: it is told
    of the end under the old one and asks under the new one.
    """

    def __init__(self, count: int, behaviors: int = 1) -> None:
        self.behavior: Indices = np.zeros(count, np.intp)
        """[n], the number of each agent's behaviour; change it only where an episode has just ended."""
        self.asking: list[Indices] = [np.arange(count)] + [np.arange(0)] * (behaviors - 1)
        """For each behaviour the agents that were asked for actions last, in the order of the actions."""
        self._ids = np.arange(count, dtype=np.int32)
        self._owed = np.zeros(count)
        self._ended: list[list[Ended]] = [[] for _ in range(behaviors)]

    def reset(self) -> None:
        """Nothing is told of what was before."""
        self._owed[:] = 0
        for ended in self._ended:
            ended.clear()

    def earn(self, amount: float | NDArray[np.float64]) -> None:
        """Pay every agent this amount, or each its own [n]."""
        self._owed += amount

    def settle(self, which: Indices, amount: float) -> None:
        """Replace what these agents [k] have earned since they were last told."""
        self._owed[which] = amount

    def end(self, which: Indices, obs: Observations, interrupted: bool = False) -> None:
        """End the episodes of these agents [k]; the next ones begin.

        Args:
            which: Who, each once.
            obs: What they saw last, [k, ...] for each sensor.
            interrupted: The limit of steps ended them.
        """
        for number, ended in enumerate(self._ended):
            (rows,) = np.nonzero(self.behavior[which] == number)
            if len(rows):
                agents = which[rows]
                ended.append(
                    Ended(
                        self._ids[agents],
                        [seen[rows] for seen in obs],
                        self._owed[agents].astype(np.float32),
                        np.full(len(rows), interrupted),
                    )
                )
        self._owed[which] = 0

    def ask(self, obs: Observations) -> list[AgentBatch]:
        """For each behaviour who ended since the last call, then its agents and what they see.

        `obs`: what all agents see, [n, ...] for each sensor.
        """
        batches = []
        for number, ended in enumerate(self._ended):
            (asking,) = np.nonzero(self.behavior == number)
            self.asking[number] = asking
            rows = [seen if len(asking) == len(seen) else seen[asking] for seen in obs]
            owed = self._owed[asking].astype(np.float32)
            batches.append(without_groups(self._ids[asking], rows, owed, ended))
            ended.clear()
        self._owed[:] = 0
        return batches
