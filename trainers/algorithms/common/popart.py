"""Values in units of the returns' running mean and deviation (van Hasselt et al. 2016, arXiv 1602.07714).

PopArt, "preserving outputs precisely, while adaptively rescaling targets": the head predicts

    (G - mean) / deviation

of each reward signal, so that returns of any size are learned equally fast; and when mean and deviation move,
its weights and biases are rescaled such that the values themselves stay what they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...networks.modules.heads import ValueHead
from ...networks.modules.normalizer import Normalizer, SharedMoments

Floats = NDArray[np.float32]
STATISTICS = "value_statistics"
"""The checkpoint entry of the running mean and deviation."""
SMALLEST_DEVIATION = 1e-4
"""The least deviation of returns that is used: values are not learned in smaller units."""


class ValueNormalizer:
    """The units in which a value head predicts S reward signals' returns."""

    def __init__(self, head: ValueHead) -> None:
        """Start with the units of the rewards: mean 0, deviation 1."""
        self.head = head
        self.statistics = Normalizer(len(head.signals)).to(head.weight.device)
        """The running mean and deviation of all returns learned from so far."""
        self._shared = SharedMoments([self.statistics])

    def units(self) -> tuple[Tensor, Tensor]:
        """Mean and deviation, [S] each."""
        return _units(self.statistics.mean, self.statistics.deviation())

    @torch.no_grad()
    def update(self, returns: Floats, real: NDArray[np.bool_] | None) -> None:
        """Count the returns [N, S] of an update, `real` [N] being False for padding, and rescale the head.

        Returns whose squares overflow are not counted. With several ranks they count together.
        """
        mean, deviation = (unit.clone() for unit in self.units())
        rows = returns if real is None else returns[real]
        self.statistics.update(torch.from_numpy(rows).to(self.head.weight.device))
        self._shared.merge()
        new_mean, new_deviation = self.units()
        self.head.weight.mul_(deviation / new_deviation)
        self.head.bias.mul_(deviation).add_(mean - new_mean).div_(new_deviation)

    def normalized(self, returns: Floats) -> Floats:
        """Returns or values [N, S] in the head's units."""
        mean, deviation = (unit.cpu().numpy() for unit in self.units())
        normalized: Floats = (returns - mean) / deviation
        return normalized

    def restored(self, outputs: Floats) -> Floats:
        """The head's outputs [N, S] in units of the rewards."""
        mean, deviation = (unit.cpu().numpy() for unit in self.units())
        restored: Floats = outputs * deviation + mean
        return restored

    def rebase(self) -> None:
        """Note that all ranks have loaded the same statistics."""
        self._shared.rebase()


def _units(mean: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor]:
    return mean, deviation.clamp(min=SMALLEST_DEVIATION)


def in_reward_units(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """A checkpoint whose value heads, by the name `values`, are in units of the rewards, without statistics.

    `state` itself is not changed.
    """
    saved = state.get(STATISTICS)
    if saved is None:
        return state
    mean, deviation = _units(saved["mean"], (saved["squares"] / saved["steps"]).sqrt())
    converted = {entry: part for entry, part in state.items() if entry != STATISTICS}
    for entry, part in converted.items():
        if isinstance(part, Mapping) and "values.weight" in part:
            weight, bias = part["values.weight"] * deviation, part["values.bias"] * deviation + mean
            converted[entry] = {**part, "values.weight": weight, "values.bias": bias}
    return converted
