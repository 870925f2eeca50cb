"""What an update does with how far its policy has moved from the one that acted."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from ...settings.models.algorithms import PaddedObjectiveSettings
from ...utils import distributed
from .optim import AdaptiveRate, ClippedSchedules

TOLERANCE = 1.5
"""How many times `target_kl` the policy may move in an update, as in Stable-Baselines3."""


class KLControl:
    """Ends updates at `target_kl`, or adapts the learning rate to it; without either it does nothing."""

    def __init__(self, hyper: PaddedObjectiveSettings, schedules: ClippedSchedules) -> None:
        rate = schedules.learning_rate
        self.adaptive = rate if isinstance(rate, AdaptiveRate) else None
        self.limit: float | None = None
        """The divergence beyond which an update ends."""
        if self.adaptive is None and hyper.target_kl is not None:
            self.limit = TOLERANCE * hyper.target_kl
        self._has_moved = False

    @property
    def is_needed(self) -> bool:
        """Whether each minibatch's divergence has to be known before its gradient step."""
        return self.adaptive is not None or self.limit is not None

    def begin(self) -> None:
        """Begin an update: the policy is still the one that acted."""
        self._has_moved = False

    def goes_on(self, approx_kl: Tensor | np.floating[Any]) -> bool:
        """Whether to take the next gradient step, by the mean over all ranks, which all have to ask."""
        if not self.is_needed:
            return True
        total, ranks = distributed.sums(float(approx_kl), 1.0)
        divergence = total / ranks
        if self.adaptive is None:  # what is no number goes on, to be refused by the optimizer
            return self.limit is None or not divergence > self.limit
        if self._has_moved:
            self.adaptive.follow(divergence)
        self._has_moved = True
        return True
