"""What a report says of its runs: groups that differ only in their seed, curves, what sets them apart."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from ....envs.utils.bounded_yaml import finite_number
from ....envs.utils.regular_files import open_file, require_within
from ...cli.runs.record import BehaviorRecord, RunRecord
from ...stats.earned import GROUP_REWARD, REWARD, earned
from ...stats.event_files import Curves, read_curves
from ...stats.writer import flattened

UNCOMPARED = ("checkpoint_settings", "env_settings.seed", "env_settings.base_port", "default_settings")
"""Settings in which runs of one group may differ: names, seeds, ports."""
_VIDEOS = (".gif", ".mp4", ".webm")
WARNINGS = "warnings.log"
_LAST_WARNINGS = 20
_LAST_BYTES = 1 << 16
"""The bytes at the end of a run's warnings that are read."""
_MOST_SECONDS = 1e12
"""The most seconds of a run: some ten thousand years. What takes longer was not measured."""


@dataclass
class BehaviorCurves:
    """One behavior of a run, with its curves."""

    record: BehaviorRecord
    curves: Curves

    @property
    def span(self) -> tuple[int, float]:
        """Steps and seconds between the first and the last summary; time between processes does not count."""
        longest = max(self.curves.by_tag.values(), key=lambda curve: len(curve.steps), default=None)
        if longest is None:
            return 0, 0.0
        steps, seconds = 0, 0.0
        starts = self.curves.starts[1:]
        points = zip(longest.steps, longest.steps[1:], longest.times, longest.times[1:])
        for step, next_step, time, next_time in points:
            if not any(time < start <= next_time for start in starts):
                steps, seconds = steps + next_step - step, seconds + next_time - time
        return steps, seconds

    @property
    def best(self) -> tuple[int, float] | None:
        """Step and value of the highest mean reward of a summary."""
        points = earned(self._points(REWARD), self._points(GROUP_REWARD))
        return max(points.items(), key=lambda point: (point[1], -point[0]), default=None)

    def _points(self, tag: str) -> dict[int, float]:
        curve = self.curves.by_tag.get(tag)
        points = zip(curve.steps, curve.values) if curve else ()
        return {step: value for step, value in points if abs(value) < float("inf")}


@dataclass
class RunResult:
    """A run, read whole."""

    record: RunRecord
    behaviors: dict[str, BehaviorCurves]
    problems: list[str] = field(default_factory=list)
    """What could not be read."""

    @classmethod
    def read(cls, record: RunRecord) -> RunResult:
        """Read the curves of the run."""
        behaviors, found = {}, []
        for one in record.behaviors:
            curves = read_curves(record.path / one.name, record.path)
            behaviors[one.name] = BehaviorCurves(one, curves)
            found += [f"{one.name}: {text}" for text in curves.problems]
        return cls(record, behaviors, list(dict.fromkeys([*record.problems, *found])))

    @property
    def processes(self) -> int:
        """How many processes have trained the run: one, and one for every `--resume` with a summary."""
        return max((len(one.curves.starts) for one in self.behaviors.values()), default=0)

    @property
    def seconds(self) -> float:
        """The wall time of all processes, from their summaries; of a single one from start to end."""
        spans = [one.span[1] for one in self.behaviors.values()]
        total = finite_number(self.record.timers.get("total"))
        if self.processes <= 1 and total is not None:
            spans = [total]
        return max((one for one in spans if 0 <= one < _MOST_SECONDS), default=0.0)

    @property
    def peak_memory(self) -> int | None:
        """The peak memory of the last process that ended, in bytes; None where it was not recorded."""
        text = str(self.record.metadata.get("peak_memory_bytes", ""))
        return int(text) if re.fullmatch("[0-9]{1,18}", text) else None

    @property
    def warnings(self) -> list[str]:
        """The last lines of the run's warnings, engines' restarts among them."""
        try:
            with open_file(self.record.path / "run_logs" / WARNINGS, self.record.path) as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES))
                text = file.read(_LAST_BYTES).decode(errors="replace")
        except FileNotFoundError:
            return []
        except OSError as error:
            return [f"{WARNINGS}: {error.strerror}"]
        return text.splitlines()[-_LAST_WARNINGS:]

    def film(self, behavior: str) -> Path | None:
        """The newest video of an evaluation of the behavior."""
        folder = self.record.path / behavior / "videos"
        try:
            require_within(folder, self.record.path)
        except OSError:
            return None
        videos = [path for path in folder.glob("*") if path.suffix in _VIDEOS and path.is_file()]
        return max(videos, key=lambda path: path.stat().st_mtime, default=None)

    def models(self) -> list[Path]:
        """The exported models: of each behavior the best one if it is kept, else the last one."""
        paths = []
        for name in self.behaviors:
            best = self.record.path / name / f"{name}-best.onnx"
            paths.append(best if best.is_file() else self.record.path / f"{name}.onnx")
        return [path for path in paths if path.is_file()]


@dataclass
class Group:
    """Runs whose settings are equal but for the seed."""

    name: str
    runs: list[RunResult]
    settings: dict[str, Any]
    """The settings by their paths, such as `behaviors.Ball.max_steps`."""


def group_runs(runs: Sequence[RunResult]) -> list[Group]:
    """The groups, in the order of their first runs."""
    groups: dict[str, Group] = {}
    for run in runs:
        settings = _compared(run.record.settings)
        key = json.dumps(settings, sort_keys=True, default=str) if settings else str(run.record.path)
        groups.setdefault(key, Group("", [], settings)).runs.append(run)
    named = list(groups.values())
    names = [_common_name([run.record.name for run in group.runs]) for group in named]
    for group, name in zip(named, names):  # two groups may have the same part in common
        alone = names.count(name) == 1
        group.name = name if alone else ", ".join(run.record.name for run in group.runs)
    return named


def differing(groups: Sequence[Group]) -> dict[str, list[Any]]:
    """The settings in which groups differ, by path: the value in each; None where a group lacks it."""
    paths = dict.fromkeys(path for group in groups if group.settings for path in group.settings)
    values = {path: [group.settings.get(path) for group in groups] for path in paths}
    known = [bool(group.settings) for group in groups]
    return {path: row for path, row in values.items() if len({repr(v) for v, k in zip(row, known) if k}) > 1}


def _compared(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        path: value
        for path, value in flattened(settings).items()
        if not any(path == left or path.startswith(f"{left}.") for left in UNCOMPARED)
    }


def _common_name(names: Sequence[str]) -> str:
    """What the names begin with; the first name and how many others if that is nothing."""
    if len(names) == 1:
        return names[0]
    same = takewhile(lambda characters: len(set(characters)) == 1, zip(*names))
    common = "".join(characters[0] for characters in same).rstrip("-_./ ")
    return f"{common or names[0]} ({len(names)} runs)"
