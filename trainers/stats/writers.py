"""The stats writers of a run: TensorBoard's, CSV tables, and those of plug-ins, for ML-Agents too."""

from __future__ import annotations

import csv
import io
import logging
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from ...envs.base import StatsAggregationMethod
from ...envs.utils.regular_files import open_own, read_bytes, remove_link
from ..settings.models.outputs import BUILT_IN, CSV, TENSORBOARD, writes_to
from ..settings.options import RunOptions
from ..utils.atomic_files import atomic_write_text
from ..utils.plugins import (
    MLAGENTS_STATS_WRITERS,
    STATS_WRITERS,
    USER_ERRORS,
    PluginError,
    cause,
    described,
    load,
    plugins,
)
from .event_files import FILE_NAME, FIRST_COLUMNS, MOST_BYTES, OF_INFERENCE
from .summary import StatsSummary
from .tensorboard import HIDDEN_KEYS, TensorBoardWriter
from .writer import StatsPropertyType, StatsWriter


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
            with open_own(self.path, "a", encoding="utf-8", newline="") as file:
                file.write(_line([named.get(column, "") for column in self.columns]))
        except OSError:
            with open_own(self.path, "r+b") as file:
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
        data = read_bytes(self.path, MOST_BYTES)
        if data and not data.endswith(b"\n"):
            with open_own(self.path, "r+b") as file:
                file.truncate(data.rfind(b"\n") + 1)


def _line(values: list[object] | list[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()


def _one_line(key: str) -> str:
    """A column name without line breaks, which an engine may have sent: each row is one line."""
    return " ".join(key.splitlines()) if "\n" in key or "\r" in key else key


_THEIRS = "mlagents.trainers.stats"
_BASE = "StatsWriter"


def adapted(writer: Any) -> StatsWriter:
    """A StatsWriter as it is; an adapter for any other object with ML-Agents' methods.

    Raises:
        TypeError: it has no method `write_stats`.
    """
    if isinstance(writer, StatsWriter):
        return writer
    if not callable(getattr(writer, "write_stats", None)):
        raise TypeError(f"found {writer!r}, expected a StatsWriter, which has a method write_stats")
    return ListeningForeignWriter(writer) if _listens(writer) else ForeignWriter(writer)


class ForeignWriter(StatsWriter):
    """Forwards to `writer` what it supports, with ML-Agents' own enums and summaries if it is installed."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer

    @property
    def name(self) -> str:
        """What messages call it."""
        return type(self.writer).__name__

    def write_stats(self, category: str, values: Mapping[str, StatsSummary], step: int) -> None:
        """Forward a summary."""
        theirs = {key: _their_summary(summary) for key, summary in values.items()}
        self.writer.write_stats(category, theirs, step)

    def add_property(self, category: str, property_type: StatsPropertyType, value: Any) -> None:
        """Forward a property, unless ML-Agents has no such property."""
        if property_type is not StatsPropertyType.MAX_STEPS and hasattr(self.writer, "add_property"):
            kind = _their("StatsPropertyType")
            theirs = property_type if kind is None else kind(property_type.value)
            self.writer.add_property(category, theirs, value)

    def close(self) -> None:
        """Call `close` if the writer has it; ML-Agents' writers do not."""
        close = getattr(self.writer, "close", None)
        if callable(close):
            close()


class ListeningForeignWriter(ForeignWriter):
    """The same for a writer that takes every single value."""

    def on_add_stat(self, category: str, key: str, value: float, aggregation: StatsAggregationMethod) -> None:
        """Forward a value."""
        self.writer.on_add_stat(category, key, value, _their_method(aggregation))


def _listens(writer: Any) -> bool:
    method = getattr(type(writer), "on_add_stat", None)
    return method is not None and getattr(method, "__qualname__", "") != f"{_BASE}.on_add_stat"


def _their(name: str) -> Any:
    """A class of ML-Agents, whose module is loaded if a plug-in was written for it; else None."""
    return getattr(sys.modules.get(_THEIRS), name, None)


def _their_method(method: StatsAggregationMethod) -> Any:
    kind = _their("StatsAggregationMethod")
    return method if kind is None else kind(method.value)


def _their_summary(summary: StatsSummary) -> Any:
    kind = _their("StatsSummary")
    if kind is None:
        return summary
    return kind(
        full_dist=summary.values.tolist(), aggregation_method=_their_method(summary.aggregation_method)
    )


logger = logging.getLogger(__name__)

_MAKERS: dict[str, Callable[..., StatsWriter]] = {TENSORBOARD: TensorBoardWriter, CSV: CsvWriter}


def make_writers(options: RunOptions, folder: Path) -> list[StatsWriter]:
    """The writers in `stats_writers`, except the console, which is the display's.

    A plug-in that cannot be used is skipped with a warning.
    """
    suffix = OF_INFERENCE if options.checkpoint_settings.inference else ""
    writers = [
        make(folder, suffix=suffix)
        for name, make in _MAKERS.items()
        if writes_to(options.stats_writers, name)
    ]
    for entry in _chosen(options.stats_writers):
        try:
            writers += _of_plugin(entry, options)
        except PluginError as error:
            logger.warning("This stats writer is skipped: %s", error)
    return writers


def _chosen(names: list[str] | None) -> list[EntryPoint]:
    """The plug-ins that are named; without the setting, all that ML-Agents would have called."""
    theirs = plugins(MLAGENTS_STATS_WRITERS)
    if names is None:
        return list(theirs.values())
    known = {**theirs, **plugins(STATS_WRITERS)} if not set(names) <= set(BUILT_IN) else {}
    return [known[name] for name in names if name in known and name not in BUILT_IN]


def _of_plugin(entry: EntryPoint, options: RunOptions) -> list[StatsWriter]:
    """The writers that a plug-in makes for this run.

    Raises:
        PluginError: It cannot be loaded, fails, or returns something else.
    """
    make: Any = _loaded(entry)
    try:
        made = make(options)
        several = isinstance(made, Iterable) and not hasattr(made, "write_stats")
        return [adapted(writer) for writer in (made if several else [made])]
    except USER_ERRORS as error:
        raise PluginError(f"the plug-in {described(entry)} failed: {cause(error)}") from error


def _loaded(entry: EntryPoint) -> Any:
    try:
        return load(entry)
    except PluginError as error:
        missing = getattr(error.__cause__, "name", None) or ""
        if entry.group == MLAGENTS_STATS_WRITERS and missing.partition(".")[0] == "mlagents":
            raise PluginError(
                f"the plug-in {described(entry)} was written for ML-Agents' classes and needs the module "
                f"{missing}, which is not installed. Under the entry point {STATS_WRITERS} and with "
                "lanista.trainers.stats.writer.StatsWriter it works here (docs/extending.md)."
            ) from error
        raise


def close_writers(writers: Iterable[StatsWriter]) -> None:
    """Close all of them; one that fails costs a warning."""
    for writer in writers:
        try:
            writer.close()
        except Exception as error:
            logger.warning("%s could not be closed: %s", writer.name, cause(error))
