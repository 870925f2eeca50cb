"""The statistic that a sweep compares, read from its runs; and the names of the files in a sweep's folder."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....envs.utils.regular_files import read_text
from ...stats.earned import GROUP_REWARD, REWARD, earned
from ...stats.event_files import FILE_NAME, FIRST_COLUMNS, MOST_BYTES
from ...utils.errors import nearest


@dataclass(frozen=True)
class Metric:
    """A statistic, and how a run's value follows from it."""

    tag: str
    """Its name in TensorBoard. `Environment/Cumulative Reward` is what the behavior earns: the reward of its
    groups where these earn any."""
    behavior: str | None
    """The behavior it belongs to; None for the only one."""
    last: int
    """A value is the mean of this many summaries."""

    def curve(self, run: Path) -> dict[int, float]:
        """The values of the run in this folder by trainer step: means of the `last` summaries up to each.

        Non-finite summaries are ignored. If a resumed run reports a step again, the later report counts.
        """
        rows = _rows(self._table(run))
        reported: Mapping[int, float] = _values(rows, self.tag)
        if self.tag == REWARD:
            reported = earned(reported, _values(rows, GROUP_REWARD))
        steps = sorted(reported)
        windows = [steps[max(0, k + 1 - self.last) : k + 1] for k in range(len(steps))]
        return {window[-1]: sum(reported[step] for step in window) / len(window) for window in windows}

    def explain_missing(self, run: Path) -> str:
        """Why the curve of a finished run is empty, and what was probably meant."""
        tables = {path.parent.name: path for path in _tables(run)}
        table = self._table(run)
        if table is None or not table.is_file():
            if self.behavior is None and len(tables) > 1:
                return f"it trained several behaviors, {', '.join(tables)}: name one under `behavior`"
            there = f", only of {', '.join(tables)}" if tables else "; did it end before its first summary?"
            return f"there is no summary of {self.behavior or 'any behavior'}{there}"
        tags = sorted({key for row in _rows(table) for key in row} - set(FIRST_COLUMNS))
        close = nearest(self.tag, tags)
        hint = f" Did you mean {close}?" if close and close != self.tag else ""
        available = ", ".join(tags)
        return f"no summary of {table.parent.name} contains {self.tag!r}.{hint} Available: {available}"

    def _table(self, run: Path) -> Path | None:
        if self.behavior is not None:
            return run / self.behavior / FILE_NAME
        tables = _tables(run)
        return tables[0] if len(tables) == 1 else None


def _tables(run: Path) -> list[Path]:
    return sorted(run.glob(f"*/{FILE_NAME}"))


def _values(rows: Sequence[Mapping[str, str]], tag: str) -> dict[int, float]:
    """The finite values of a statistic by step."""
    found = ((_number(row.get("step", "")), _number(row.get(tag, ""))) for row in rows)
    return {int(step): value for step, value in found if step is not None and value is not None}


def _rows(table: Path | None) -> list[dict[str, str]]:
    """The rows of a table of summaries, without a last line that is still being written."""
    try:
        text = "" if table is None else read_text(table, MOST_BYTES, "replace", table.parent.parent)
        whole = text[: text.rfind("\n") + 1]
        return [{k: v for k, v in row.items() if k and v} for row in csv.DictReader(io.StringIO(whole))]
    except (OSError, csv.Error):
        return []


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


STUDY = "study.db"
"""Optuna's database of all trials."""
CSV_NAME = "sweep.csv"
"""One row per trial."""
BEST_NAME = "best.yaml"
"""The configuration of the best trial."""
PICTURE_NAME = "sweep.png"
"""The plot: values in order, and against every parameter."""
LOGS = "logs"
"""The output of the runs."""


class SweepError(Exception):
    """A sweep cannot start or continue; the message says why and what to do."""
