"""run_logs/timers.json: where the run's time went, and gauges with the last value of every statistic.

The nodes have the names that ML-Agents gives to what does the same:

    run_training.setup                       until the engines start
    TrainerController.start_learning
      TrainerController._reset_env           engines start, first observations
      TrainerController.advance              one turn of the loop
        env_step                             steps to trajectories
          SubprocessEnvManager._take_step    answers: one forward pass per behavior
            TorchPolicy.evaluate
        trainer_advance
          process_trajectory                 values, rewards
          _update_policy
            TorchPPOOptimizer.update
          wait_for_learner                   with `threaded: true`, for the process that updates
        EnvManager.wait                      for engines, and messages are decoded
      TrainerController._save_models
    trainer_threads                          with `threaded: true`, what learns beside the loop
      thread_root
"""

from __future__ import annotations

import json
import logging
import math
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Lock
from typing import Any

from ..utils.atomic_files import atomic_write_text
from .summary import StatsSummary
from .writer import StatsWriter


@dataclass
class Gauge:
    """A value that is overwritten: the last one, the range, and how often it was set."""

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
    """Keeps mean and sum of every statistic for timers.json; values that are not finite are ignored."""

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


logger = logging.getLogger(__name__)

FORMAT_VERSION = "0.1.0"
API_VERSION = "1.5.0"
REFERENCE_VERSION = "1.1.0"
"""The release of ML-Agents whose file format this is."""


@dataclass
class TimerNode:
    """Seconds spent in a named part of the loop, and in the parts inside it."""

    total: float = 0.0
    count: int = 0
    children: dict[str, TimerNode] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The node in the file's format; `self` is the time not spent in any child."""
        tree: dict[str, Any] = {
            "total": self.total,
            "count": self.count,
            "is_parallel": False,
            "self": max(0.0, self.total - sum(child.total for child in self.children.values())),
        }
        if self.children:
            tree["children"] = {name: child.as_dict() for name, child in self.children.items()}
        return tree


class Span:
    """Adds the time of a `with` block to a node of the tree; one span may be used again and again."""

    __slots__ = ("_name", "_timers")

    def __init__(self, timers: Timers, name: str) -> None:
        self._timers = timers
        self._name = name

    def __enter__(self) -> None:
        timers = self._timers
        children = timers.open_nodes[-1][0].children
        node = children.get(self._name)
        if node is None:
            node = children[self._name] = TimerNode()
        timers.open_nodes.append((node, timers.clock()))

    def __exit__(self, *exception: object) -> None:
        node, start = self._timers.open_nodes.pop()
        node.total += self._timers.clock() - start
        node.count += 1


class Timers:
    """A tree of timers for one thread: `with timers.span("env_step"): ...`, nested as the code is."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self._date = time.time()
        self.root = TimerNode(count=1)
        self.started = clock()
        self.open_nodes = [(self.root, self.started)]
        """The nodes of the spans that are open, and when they were opened."""
        self._threads: list[Timers] = []
        # Cached, so that the loop makes no object per span and tick.
        self.span: Callable[[str], Span] = cache(partial(Span, self))
        """What adds the time of its block to the node of this name inside the span that is open."""

    def add(self, name: str, seconds: float) -> None:
        """Add time that was measured elsewhere to a node inside the span that is open."""
        node = self.open_nodes[-1][0].children.setdefault(name, TimerNode())
        node.total += seconds
        node.count += 1

    def of_thread(self) -> Timers:
        """A separate tree for another thread; it is written to the same file."""
        self._threads.append(Timers(self.clock))
        return self._threads[-1]

    def _add_threads(self) -> None:
        whole = TimerNode(count=1)
        for number, thread in enumerate(self._threads):
            thread.root.total = sum(child.total for child in thread.root.children.values())
            whole.total += thread.root.total
            whole.children["thread_root" if not number else f"thread_root_{number}"] = thread.root
        if self._threads:
            self.root.children["trainer_threads"] = whole

    def save(self, path: str | Path, gauges: Mapping[str, Gauge] | None = None) -> None:
        """Write the file; a failure costs a warning, and an old file stays unchanged."""
        self._add_threads()
        self.root.total = self.clock() - self.started
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
            "start_time_seconds": str(int(self._date)),
            "end_time_seconds": str(int(time.time())),
            "python_version": sys.version,
            "command_line_arguments": shlex.join(sys.argv),
            "mlagents_version": REFERENCE_VERSION,
            "mlagents_envs_version": REFERENCE_VERSION,
            "lanista_version": _version("lanista"),
            "communication_protocol_version": API_VERSION,
            "pytorch_version": _version("torch"),
            "numpy_version": _version("numpy"),
            "peak_memory_bytes": str(_peak_memory()),
        }


def _peak_memory() -> int:
    """The most memory that this process has held at once, in bytes; engines are processes of their own."""
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
