"""run_logs/timers.json: the last figures of every statistic, and how the run's time was spent."""

from __future__ import annotations

import json
import logging
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Lock
from typing import Any

from ..atomic import atomic_write_text
from .summary import StatsSummary
from .writer import StatsWriter

logger = logging.getLogger(__name__)

FORMAT_VERSION = "0.1.0"
API_VERSION = "1.5.0"
REFERENCE_VERSION = "1.1.0"
"""The release of ML-Agents whose file format this is."""


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


@dataclass
class TimerNode:
    """Seconds spent in a named part of the loop, and in the parts inside it."""

    total: float = 0.0
    count: int = 0
    children: dict[str, TimerNode] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The node in the file's form; `self` is the time that no child accounts for."""
        tree: dict[str, Any] = {
            "total": self.total,
            "count": self.count,
            "is_parallel": False,
            "self": max(0.0, self.total - sum(child.total for child in self.children.values())),
        }
        if self.children:
            tree["children"] = {name: child.as_dict() for name, child in self.children.items()}
        return tree


class Timers:
    """A tree of timers for one thread: `with timers.span("advance"): ...`, nested as the code is."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._started = time.time()
        self.root = TimerNode(count=1)
        self._open = [self.root]
        self._begin = clock()

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Add the time of the body to the node `name` inside the span that is open."""
        node = self._open[-1].children.setdefault(name, TimerNode())
        self._open.append(node)
        begin = self._clock()
        try:
            yield
        finally:
            node.total += self._clock() - begin
            node.count += 1
            self._open.pop()

    def save(self, path: str | Path, gauges: Mapping[str, Gauge] | None = None) -> None:
        """Write the file; where that fails a warning says so, and an old file is as it was."""
        self.root.total = self._clock() - self._begin
        tree: dict[str, Any] = {"name": "root"}
        if gauges:
            tree["gauges"] = {name: vars(gauge) for name, gauge in gauges.items()}
        tree["metadata"] = self._metadata()
        tree.update(self.root.as_dict())
        del tree["is_parallel"]
        tree.setdefault("children", {})
        try:
            atomic_write_text(path, json.dumps(tree, indent=4))
        except OSError as error:
            logger.warning("%s could not be written (%s).", path, error)

    def _metadata(self) -> dict[str, str]:
        return {
            "timer_format_version": FORMAT_VERSION,
            "start_time_seconds": str(int(self._started)),
            "end_time_seconds": str(int(time.time())),
            "python_version": sys.version,
            "command_line_arguments": " ".join(sys.argv),
            "mlagents_version": REFERENCE_VERSION,
            "mlagents_envs_version": REFERENCE_VERSION,
            "lanista_version": _version("lanista"),
            "communication_protocol_version": API_VERSION,
            "pytorch_version": _version("torch"),
            "numpy_version": _version("numpy"),
        }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
