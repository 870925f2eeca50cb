"""Summaries as one table per behavior, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ...envs.base import StatsAggregationMethod
from ...envs.utils.regular_files import refuse_pipe, remove_link
from ..utils.atomic_files import atomic_write_text
from .event_files import FILE_NAME, FIRST_COLUMNS
from .summary import StatsSummary
from .tensorboard import HIDDEN_KEYS
from .writer import StatsWriter


class CsvWriter(StatsWriter):
    """Writes `<run>/<category>/summaries.csv`, a row per summary.

    A statistic has a column from the first summary in which it appears, and the standard deviation of a
    histogram's values one named `<key>_std`. Columns keep their positions: new ones are appended, empty in
    earlier rows. A resumed run continues in the same file, from its checkpoint: a step may occur twice, and
    its last row counts.
    """

    def __init__(
        self, run_folder: str | Path, clock: Callable[[], float] = time.time, *, suffix: str = ""
    ) -> None:
        """`suffix`: of the tables' names, before the ending."""
        self.run_folder = Path(run_folder)
        self._name = Path(FILE_NAME).stem + suffix + Path(FILE_NAME).suffix
        self._clock = clock
        self._tables: dict[str, CsvTable] = {}

    def write_stats(self, category: str, values: Mapping[str, StatsSummary], step: int) -> None:
        """Append the row of one summary.

        Raises:
            OSError: it could not be written; the table is then unchanged.
            ValueError: the existing file is not such a table.
        """
        table = self._tables.get(category)
        if table is None:
            table = CsvTable(self.run_folder / category / self._name)
            self._tables[category] = table
        row: dict[str, object] = {"step": step, "time": round(self._clock(), 3)}
        for key, summary in values.items():
            if key not in HIDDEN_KEYS:
                column = f"Environment/{key}" if key in FIRST_COLUMNS else key  # an engine names its own
                row[column] = summary.aggregated_value
                if summary.aggregation_method is StatsAggregationMethod.HISTOGRAM:
                    row[f"{column}_std"] = summary.std
        table.append(row)


class CsvTable:
    """A file of rows under named columns, complete after every row."""

    def __init__(self, path: Path) -> None:
        """Continue the table at `path`, if there is one.

        A link in its place is removed.

        Raises:
            OSError: it cannot be read.
            ValueError: it does not start with the first columns.
        """
        remove_link(path)
        self.path = path
        self.columns: list[str] = []
        if not path.exists():
            return
        refuse_pipe(path)
        self._repair()
        with open(path, encoding="utf-8", newline="") as file:
            self.columns = next(csv.reader(file), [])
        if self.columns and tuple(self.columns[: len(FIRST_COLUMNS)]) != FIRST_COLUMNS:
            raise ValueError(
                f"{path} is not a table of summaries: its columns start with {', '.join(self.columns[:2])}, "
                f"expected {', '.join(FIRST_COLUMNS)}. Move it away, and a new one is written."
            )

    def append(self, row: Mapping[str, object]) -> None:
        """Append a row, and new columns after the existing ones.

        Raises:
            OSError: it could not be written; the table is then unchanged.
        """
        named = {_one_line(key): value for key, value in row.items()}
        new = [key for key in named if key not in self.columns]
        if new or not self.path.exists():
            self._widen([*self.columns, *new])
        size = self.path.stat().st_size
        try:
            with open(self.path, "a", encoding="utf-8", newline="") as file:
                file.write(_line([named.get(column, "") for column in self.columns]))
        except OSError:
            with open(self.path, "r+b") as file:
                file.truncate(size)
            raise

    def _widen(self, columns: list[str]) -> None:
        """Rewrite the table with more columns."""
        rows: list[list[str]] = []
        if self.path.exists():
            with open(self.path, encoding="utf-8", newline="") as file:
                rows = list(csv.reader(file))[1:]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        padded = (row + [""] * (len(columns) - len(row)) for row in rows)
        atomic_write_text(self.path, "".join([_line(columns), *map(_line, padded)]))
        self.columns = columns

    def _repair(self) -> None:
        """Remove the partial row that a killed process has left."""
        data = self.path.read_bytes()
        if data and not data.endswith(b"\n"):
            with open(self.path, "r+b") as file:
                file.truncate(data.rfind(b"\n") + 1)


def _line(values: list[object] | list[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()


def _one_line(key: str) -> str:
    """A column name without line breaks, which an engine may have sent: each row is one line."""
    return " ".join(key.splitlines()) if "\n" in key or "\r" in key else key
