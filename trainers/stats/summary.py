"""The values of one key between two summaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...envs.base import StatsAggregationMethod


@dataclass
class StatsSummary:
    """The values of one key since the last summary, and statistics of them.

    Without a value, mean and standard deviation are NaN and the sum is 0.
    """

    full_dist: Sequence[float] | NDArray[np.float64] = field(default_factory=list)
    """Every value, in the order in which they were reported."""
    aggregation_method: StatsAggregationMethod = StatsAggregationMethod.AVERAGE

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """[n] the values as an array."""
        return np.asarray(self.full_dist, dtype=np.float64)

    @property
    def aggregated_value(self) -> float:
        """The sum for SUM, else the mean (of MOST_RECENT there is but one value)."""
        return self.sum if self.aggregation_method is StatsAggregationMethod.SUM else self.mean

    @property
    def mean(self) -> float:
        """Arithmetic mean."""
        return float(self.values.mean()) if self.num else float("nan")

    @property
    def std(self) -> float:
        """Standard deviation of the population (divided by n)."""
        return float(self.values.std()) if self.num else float("nan")

    @property
    def num(self) -> int:
        """How many values there are."""
        return len(self.full_dist)

    @property
    def sum(self) -> float:
        """Their sum."""
        return float(self.values.sum())
