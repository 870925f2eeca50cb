"""What off-policy trainers share: keep steps in a replay, and draw batches from it to learn from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..agent_processor.trajectory import Rollout
from .replay.batch import ReplayBatch
from .threads import UpdateThreads


class Learnt(NamedTuple):
    """What came of one gradient step."""

    figures: dict[str, float]
    """By statistics' names, such as "Losses/Value Loss"."""
    errors: Tensor | None
    """[B] the size of each step's temporal-difference error, for priorities; None where there is none."""


class OffPolicyAlgorithm(Protocol):
    """What an algorithm adds: how it values steps, and how it learns from a batch."""

    signals: list[str]
    gammas: list[float]
    """Of each signal."""
    network: Any
    """What acts and is exported."""
    sequence_length: int
    """Of the sequences that it learns from; 1 without a memory."""
    greedy_when_tested: bool
    """Its agents try things by chance only while they learn."""

    @property
    def exploration(self) -> float:
        """How much chance there is in what agents do, until the next update."""
        ...

    def normalize(self, rollout: Rollout) -> None:
        """Let the running observation statistics take in these steps."""
        ...

    def estimates(self, rollout: Rollout) -> dict[str, NDArray[np.float32]]:
        """What is expected of each of the own steps [steps, signals], by the statistic's name: "Value"."""
        ...

    def update(self, batch: ReplayBatch, policy_step: int, threads: UpdateThreads) -> Learnt:
        """One gradient step."""
        ...

    def figures(self, policy_step: int) -> dict[str, float]:
        """What is told at summaries, such as the learning rate, by statistics' names."""
        ...

    def begin_with(self, state: Mapping[str, Any]) -> list[str]:
        """Take over what fits of another run's `state_dict`; what does not, with the reasons.

        Raises:
            CheckpointError: nothing of the policy fits.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """All that the next update depends on."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        ...
