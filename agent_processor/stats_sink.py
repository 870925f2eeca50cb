"""Where this floor sends its figures; the floor above provides it."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from ..envs.base import StatsAggregationMethod


class StatsSink(Protocol):
    """Takes figures until the next summary puts them together."""

    def add_stat(self, key: str, value: float, aggregation: StatsAggregationMethod) -> None:
        """One more value for `key`."""
        ...

    def add_stats(self, key: str, values: NDArray[Any], aggregation: StatsAggregationMethod) -> None:
        """[n] more values for `key`."""
        ...

    def set_stat(self, key: str, value: float) -> None:
        """The value of `key`, in place of any that it had."""
        ...
