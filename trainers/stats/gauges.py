"""The gauges of run_logs/timers.json: the last figures of every statistic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock

from .summary import StatsSummary
from .writer import StatsWriter


@dataclass
class Gauge:
    """A figure that is overwritten: its last value, its range, and how often it was set."""

    value: float
    min: float = math.inf
    max: float = -math.inf
    count: int = 0

    def set(self, value: float) -> None:
        """Take a new value."""
        self.value = value
        self.min = min(self.min, value)
        self.max = max(self.max, value)
        self.count += 1


def gauge_name(text: str) -> str:
    """The name under which timers.json lists a statistic: no spaces, dots for slashes."""
    return text.replace("/", ".").replace(" ", "")


class GaugeWriter(StatsWriter):
    """Keeps mean and sum of every statistic for timers.json; numbers that are not finite are left out."""

    def __init__(self) -> None:
        self._gauges: dict[str, Gauge] = {}
        self._lock = Lock()

    @property
    def gauges(self) -> dict[str, Gauge]:
        """A copy of all of them, by name."""
        with self._lock:
            return {name: replace(gauge) for name, gauge in self._gauges.items()}

    def write_stats(self, category: str, values: Mapping[str, StatsSummary], step: int) -> None:
        """Set the gauges `<category>.<key>.mean` and `.sum`."""
        for key, summary in values.items():
            self._set(f"{category}.{key}.mean", summary.mean)
            self._set(f"{category}.{key}.sum", summary.sum)

    def _set(self, text: str, value: float) -> None:
        if math.isfinite(value):
            with self._lock:
                self._gauges.setdefault(gauge_name(text), Gauge(value)).set(value)
