"""Summaries as TensorBoard event files, one folder per behaviour."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Collection, Mapping
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

from ...envs.statistics import StatsAggregationMethod
from .event_file import EventFile, animation, histogram, scalar, text
from .hyperparameters import hyperparameter_text
from .summary import StatsSummary
from .writer import StatsPropertyType, StatsWriter

logger = logging.getLogger(__name__)

HIDDEN_KEYS = frozenset({"Is Training", "Step"})
"""What the console and the gauges show and TensorBoard does not."""


class TensorBoardWriter(StatsWriter):
    """Writes `<run>/<category>/events.out.tfevents.*`.

    A file that cannot be written (a full disk) costs one warning; that summary is missing in the curves, the
    file stays readable, and writing goes on as soon as it works again.
    """

    def __init__(
        self,
        run_folder: str | Path,
        clear_past_data: bool = False,
        hidden_keys: Collection[str] = HIDDEN_KEYS,
    ) -> None:
        """Write below `run_folder`; `clear_past_data` removes a category's older event files first."""
        self.run_folder = Path(run_folder)
        self.clear_past_data = clear_past_data
        self.hidden_keys = frozenset(hidden_keys)
        self._files: dict[str, EventFile] = {}
        self._failing: set[str] = set()
        self._cleared: set[str] = set()
        self._lock = Lock()

    def write_stats(self, category: str, values: Mapping[str, StatsSummary], step: int) -> None:
        """Append one scalar per key and, for histograms, the distribution as `<key>_hist`."""
        items = []
        for key, summary in values.items():
            if key in self.hidden_keys:
                continue
            items.append(scalar(key, summary.aggregated_value))
            if summary.aggregation_method is StatsAggregationMethod.HISTOGRAM:
                distribution = histogram(f"{key}_hist", summary.values)
                if distribution is not None:
                    items.append(distribution)
        self._write(category, step, items)

    def add_property(self, category: str, property_type: StatsPropertyType, value: Any) -> None:
        """Write the hyper-parameters as a text; other properties are not of interest."""
        if property_type is StatsPropertyType.HYPERPARAMETERS:
            self._write(category, 0, [text("Hyperparameters", hyperparameter_text(value))])

    def add_video(self, category: str, key: str, gif: bytes, size: tuple[int, int], step: int) -> None:
        """Write an animation among the images."""
        self._write(category, step, [animation(key, gif, size)])

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            for file in self._files.values():
                file.close()
            self._files.clear()

    def _write(self, category: str, step: int, items: list[bytes]) -> None:
        with self._lock:
            try:
                self._file(category).write(time.time(), step, items)
            except OSError as error:
                if category not in self._failing:
                    self._failing.add(category)
                    logger.warning(
                        "The curves of %s could not be written to %s (%s); training goes on without them.",
                        category,
                        self.run_folder / category,
                        error,
                    )
            else:
                if category in self._failing:
                    self._failing.discard(category)
                    logger.warning("The curves of %s are being written again.", category)

    def _file(self, category: str) -> EventFile:
        if category not in self._files:
            folder = self.run_folder / category
            folder.mkdir(parents=True, exist_ok=True)
            if self.clear_past_data and category not in self._cleared:
                _clear(folder)
            self._cleared.add(category)
            self._files[category] = _create(folder)
        return self._files[category]


def _create(folder: Path) -> EventFile:
    """A new event file, under a name that none of the folder has."""
    now = time.time()
    for number in count():
        path = folder / f"events.out.tfevents.{int(now)}.{socket.gethostname()}.{os.getpid()}.{number}"
        if not path.exists():
            break
    file = open(path, "xb", buffering=0)  # noqa: SIM115 (stays open for the run)
    try:
        return EventFile(file, now)
    except OSError:
        file.close()
        path.unlink(missing_ok=True)
        raise


def _clear(folder: Path) -> None:
    for path in sorted(folder.glob("events.out.tfevents*")):
        logger.warning("Deleting TensorBoard data %s that was left over from a previous run.", path)
        try:
            path.unlink()
        except OSError as error:  # on Windows while TensorBoard shows it
            logger.warning("It could not be deleted, its curves will show up beside the new ones: %s.", error)
