"""The runs of a study and their curves, kept in docs/results: NAME.csv and NAME-curves.csv."""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock
from intervals import Curve
from results import RESULTS, read, write


@dataclass(frozen=True)
class Run:
    """A line of NAME.csv: a model that was trained and scored."""

    scene: str
    """The task's name."""
    product: str
    """The way's name."""
    seed: int
    max_steps: int
    settings: str
    """The fingerprint of what was trained."""
    score: float
    """Mean reward of the scored episodes."""
    std: float
    seconds: float = math.nan
    """From the command to the end of training; NaN: not measured."""

    @property
    def key(self) -> tuple[str, str, int]:
        return self.scene, self.product, self.seed


@dataclass(frozen=True)
class Point:
    """A line of NAME-curves.csv: a summary of a run."""

    scene: str
    product: str
    seed: int
    step: int
    reward: float
    """Mean reward of the episodes that ended since the summary before, actions sampled."""

    @property
    def key(self) -> tuple[str, str, int]:
        return self.scene, self.product, self.seed


def fingerprint(settings: Any) -> str:
    """Eight letters for anything that JSON knows; equal settings have equal ones, in whatever order."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]


class Records:
    """One run for each task, way and seed, with its curve.

    Several processes may add runs at the same time: each reads the files again before it changes them.
    """

    def __init__(self, name: str, folder: Path = RESULTS) -> None:
        self._runs_csv, self._curves_csv = folder / f"{name}.csv", folder / f"{name}-curves.csv"
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(folder / f".{name}.lock")
        self.runs: list[Run] = []
        self._points: list[Point] = []
        self.reload()

    def reload(self) -> None:
        """Take in what other processes have added."""
        with self._lock:
            self._read()

    def add(self, run: Run, curve: Iterable[tuple[int, float]]) -> None:
        """Keep a run in place of the one that there was for its task, way and seed."""
        with self._lock:
            self._read()
            self.runs = [*(old for old in self.runs if old.key != run.key), run]
            new = [Point(*run.key, *each) for each in curve]
            self._points = [*(old for old in self._points if old.key != run.key), *new]
            write(self._curves_csv, Point, self._points)  # first, so that every run has its curve
            write(self._runs_csv, Run, self.runs)

    def has(self, key: tuple[str, str, int], max_steps: int, settings: str) -> bool:
        """Whether there is a run of this task, way and seed, with this budget and fingerprint."""
        return any((run.key, run.max_steps, run.settings) == (key, max_steps, settings) for run in self.runs)

    def curves(self) -> dict[tuple[str, str, int], Curve]:
        """By the runs' keys."""
        found = defaultdict(list)
        for point in self._points:
            found[point.key].append((point.step, point.reward))
        return dict(found)

    def _read(self) -> None:
        self.runs, self._points = read(self._runs_csv, Run), read(self._curves_csv, Point)
