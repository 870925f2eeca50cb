"""Collects statistics of one behavior and hands them to the writers at every summary."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...envs.base import StatsAggregationMethod
from ..utils import distributed
from .summary import StatsSummary
from .writer import StatsPropertyType, StatsWriter

logger = logging.getLogger(__name__)

_WORKER = re.compile(r"(?<=^Environment/)Worker ([0-9]+)")
_Chunks = list["float | NDArray[np.float64]"]


class StatsReporter:
    """The statistics of one category (a behavior's name), from any thread.

    Values are stored as they come, arrays as arrays, until the next summary: a step costs one append per
    key, however many agents there are. The aggregation of a key is that of its latest report.
    """

    def __init__(self, category: str, writers: Sequence[StatsWriter] = ()) -> None:
        self.category = category
        self.writers = list(writers)
        self._listeners = [
            (index, writer)
            for index, writer in enumerate(self.writers)
            if type(writer).on_add_stat is not StatsWriter.on_add_stat
        ]
        self._chunks: dict[str, _Chunks] = {}
        self._aggregation: dict[str, StatsAggregationMethod] = {}
        self._lock = Lock()
        self._writing = Lock()
        self._failed: set[int] = set()

    def add_stat(
        self, key: str, value: float, aggregation: StatsAggregationMethod = StatsAggregationMethod.AVERAGE
    ) -> None:
        """Report one value."""
        number = float(value)
        with self._lock:
            self._chunks.setdefault(key, []).append(number)
            self._aggregation[key] = aggregation
        self._notify(key, [number], aggregation)

    def add_stats(
        self,
        key: str,
        values: ArrayLike,
        aggregation: StatsAggregationMethod = StatsAggregationMethod.AVERAGE,
    ) -> None:
        """Report the numbers of an array of any shape; it is copied, so the caller may overwrite it."""
        numbers = np.array(values, dtype=np.float64).reshape(-1)
        if not len(numbers):
            return
        with self._lock:
            self._chunks.setdefault(key, []).append(numbers)
            self._aggregation[key] = aggregation
        if self._listeners:
            self._notify(key, numbers.tolist(), aggregation)

    def set_stat(self, key: str, value: float) -> None:
        """Report a value that replaces everything collected under `key` (MOST_RECENT)."""
        number = float(value)
        with self._lock:
            self._chunks[key] = [number]
            self._aggregation[key] = StatsAggregationMethod.MOST_RECENT
        self._notify(key, [number], StatsAggregationMethod.MOST_RECENT)

    def add_property(self, property_type: StatsPropertyType, value: Any) -> None:
        """Forward a property of this category to every writer."""
        self._each(lambda writer: writer.add_property(self.category, property_type, value))

    def get_stats_summaries(self, key: str) -> StatsSummary:
        """What `key` has collected so far; an empty summary for an unknown key."""
        with self._lock:
            chunks = list(self._chunks.get(key, ()))
            aggregation = self._aggregation.get(key, StatsAggregationMethod.AVERAGE)
        return StatsSummary(_joined(chunks), aggregation)

    def join_ranks(self, first_worker: int = 0) -> None:
        """Add to rank 0's values what the other ranks of the run have collected.

        `first_worker`: the number of this rank's first environment among those of the run.
        """
        if distributed.world_size() == 1:
            return

        def renamed(key: str) -> str:
            return _WORKER.sub(lambda match: f"Worker {int(match[1]) + first_worker}", key)

        with self._lock:
            self._chunks = {renamed(key): values for key, values in self._chunks.items()}
            self._aggregation = {renamed(key): way for key, way in self._aggregation.items()}
            for chunks, aggregation in distributed.gather((self._chunks, self._aggregation))[1:]:
                for key, values in chunks.items():
                    if aggregation[key] is not StatsAggregationMethod.MOST_RECENT:
                        self._chunks.setdefault(key, []).extend(values)
                        self._aggregation.setdefault(key, aggregation[key])

    def write_stats(self, step: int) -> None:
        """Pass a summary labeled `step` to every writer and start over.

        A writer that fails costs one warning, and the run continues; it is called again for the next summary.
        """
        with self._lock:
            chunks, self._chunks = self._chunks, {}
            aggregation, self._aggregation = self._aggregation, {}
        values = {key: StatsSummary(_joined(parts), aggregation[key]) for key, parts in chunks.items()}
        # A copy each: what one writer removes, others still get.
        self._each(lambda writer: writer.write_stats(self.category, dict(values), step))

    def write_between(self, values: Mapping[str, StatsSummary], step: int) -> None:
        """Pass statistics of `step` alone to every writer; what is collected is not affected."""
        self._each(lambda writer: writer.write_between(self.category, dict(values), step))

    def add_video(self, key: str, gif: bytes, size: tuple[int, int], step: int) -> None:
        """Pass an animation of (width, height) pixels to every writer."""
        self._each(lambda writer: writer.add_video(self.category, key, gif, size, step))

    def _each(self, call: Callable[[StatsWriter], None]) -> None:
        """Call every writer; one that fails costs one warning, and the run continues."""
        with self._writing:
            for index, writer in enumerate(self.writers):
                try:
                    call(writer)
                except Exception as error:
                    self._warn(index, error)

    def _notify(self, key: str, numbers: Sequence[float], aggregation: StatsAggregationMethod) -> None:
        """Pass single values to the writers that take them."""
        for index, writer in self._listeners:
            try:
                for number in numbers:
                    writer.on_add_stat(self.category, key, number, aggregation)
            except Exception as error:
                self._warn(index, error)

    def _warn(self, index: int, error: Exception) -> None:
        if index not in self._failed:
            self._failed.add(index)
            name = self.writers[index].name
            logger.warning(
                "%s: %s failed (%s: %s). Training goes on; further failures of this writer are not reported.",
                self.category,
                name,
                type(error).__name__,
                error,
                exc_info=logger.isEnabledFor(logging.DEBUG),
            )


def _joined(chunks: _Chunks) -> NDArray[np.float64]:
    return np.concatenate([np.atleast_1d(chunk) for chunk in chunks]) if chunks else np.zeros(0)
