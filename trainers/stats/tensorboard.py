"""Summaries as TensorBoard event files, one folder per behavior.

Messages and records are TensorBoard's own. Its `EventFileWriter` is not used: it writes from a thread that
prints a traceback and is gone for good after a full disk, leaves half a record in the file, and imports
TensorFlow where that is installed. Here a summary is one record, which is written whole or not at all.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs.base import StatsAggregationMethod
from .summary import StatsSummary
from .writer import StatsPropertyType, StatsWriter, flattened, hyperparameter_text

logger = logging.getLogger(__name__)

HIDDEN_KEYS = frozenset({"Is Training", "Step"})
"""What the console and the gauges show and TensorBoard does not."""

_BINS = 64

Value = Any
"""A `Summary.Value` of TensorBoard's protocol buffers, which are untyped."""


def scalar(tag: str, value: float) -> Value:
    """One number (stored as float32; beyond its range it becomes an infinity)."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    with np.errstate(over="ignore"):
        return Summary.Value(tag=tag, simple_value=float(np.float32(value)))


def histogram(tag: str, values: NDArray[np.float64]) -> Value | None:
    """The distribution of the finite ones of `values`, in equal bins; None if there are none."""
    from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary

    values = values[np.isfinite(values)]
    if not len(values):
        return None
    low, high = values.min(), values.max()
    with np.errstate(over="ignore"):
        limits = low + (high / _BINS - low / _BINS) * np.arange(1, _BINS + 1)
        limits[-1] = high
        if np.all(np.diff(limits, prepend=low) > 0):
            counts = np.bincount(np.searchsorted(limits, values), minlength=_BINS).astype(np.float64)
        else:  # too close to each other for bins that differ
            counts, limits = np.array([float(len(values))]), np.array([high])
        moments = {"sum": float(values.sum()), "sum_squares": float(np.square(values).sum())}
    distribution = HistogramProto(
        min=low, max=high, num=len(values), bucket_limit=limits.tolist(), bucket=counts.tolist(), **moments
    )
    return Summary.Value(tag=tag, histo=distribution)


def settings_values(settings: Mapping[str, Any]) -> list[Value]:
    """A behavior's settings: as ML-Agents' text, and for TensorBoard's dashboard of hyperparameters."""
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb

    text = Summary.Value(
        tag="Hyperparameters/text_summary",
        tensor=TensorProto(
            dtype=DT_STRING,
            string_val=[hyperparameter_text(settings).encode("utf-8", "replace")],
            tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
        ),
        metadata=SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text")),
    )
    plain = (bool, int, float, str)
    hparams = {k: v if isinstance(v, plain) else str(v) for k, v in flattened(settings).items()}
    return [text, *hparams_pb(hparams).value]


def animation(tag: str, gif: bytes, size: tuple[int, int]) -> Value:
    """A GIF of (width, height) pixels, for TensorBoard's images tab."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    width, height = size
    image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=gif)
    return Summary.Value(tag=tag, image=image)


class EventFile:
    """Appends events to a new file; a failed write leaves no partial record."""

    def __init__(self, path: Path) -> None:
        """Create the file with its first event. Raises OSError."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event = Event
        self._end = 0
        self.file = open(path, "xb", buffering=0)  # noqa: SIM115 (stays open for the run)
        self._records = RecordWriter(self)
        try:
            self._records.write(
                Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString()
            )
        except OSError:
            self.file.close()
            path.unlink(missing_ok=True)
            raise

    def add(self, step: int, values: Sequence[Value]) -> None:
        """Append an event. Raises OSError."""
        event = self._event(wall_time=time.time(), step=step)
        event.summary.value.extend(values)
        self._records.write(event.SerializeToString())

    def write(self, record: bytes) -> None:
        """Append a record, all of it or nothing; called by TensorBoard's `RecordWriter`. Raises OSError."""
        try:
            written = self.file.write(record)
            if written != len(record):
                raise OSError(f"only {written} of {len(record)} bytes were written")
        except OSError:
            self.file.truncate(self._end)
            self.file.seek(self._end)
            raise
        self._end += len(record)


class TensorBoardWriter(StatsWriter):
    """Writes `<run>/<category>/events.out.tfevents.*`.

    A file that cannot be written (a full disk) costs one warning; that summary is missing in the curves, the
    file stays readable, and writing resumes as soon as it works again. TensorBoard is imported with the
    first summary, so that starting a run does not wait for it.
    """

    def __init__(
        self,
        run_folder: str | Path,
        clear_past_data: bool = False,
        hidden_keys: Collection[str] = HIDDEN_KEYS,
        *,
        suffix: str = "",
    ) -> None:
        """Write below `run_folder`.

        Args:
            run_folder: the run's folder.
            clear_past_data: remove a category's older event files first.
            hidden_keys: statistics that are left out.
            suffix: the end of the files' names.
        """
        self.run_folder = Path(run_folder)
        self.suffix = suffix
        self.clear_past_data = clear_past_data
        self.hidden_keys = frozenset(hidden_keys)
        self._files: dict[str, EventFile] = {}
        self._settings: dict[str, Mapping[str, Any]] = {}
        """The settings by category, until the first summary."""
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
        """Write the hyperparameters with the first summary; other properties are ignored."""
        if property_type is StatsPropertyType.HYPERPARAMETERS:
            with self._lock:
                self._settings[category] = value

    def add_video(self, category: str, key: str, gif: bytes, size: tuple[int, int], step: int) -> None:
        """Write an animation among the images."""
        self._write(category, step, [animation(key, gif, size)])

    def close(self) -> None:
        """Write the settings of categories without any summary, and close all files."""
        for category in list(self._settings):
            self._write(category, 0, [])
        with self._lock:
            for file in self._files.values():
                file.file.close()
            self._files.clear()

    def _write(self, category: str, step: int, values: Sequence[Value]) -> None:
        with self._lock:
            try:
                file = self._file(category)
                if category in self._settings:
                    file.add(0, settings_values(self._settings[category]))
                    del self._settings[category]
                if values:
                    file.add(step, values)
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
            name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}"
            paths = (folder / f"{name}.{number}{self.suffix}" for number in count())
            self._files[category] = EventFile(next(path for path in paths if not path.exists()))
        return self._files[category]


def _clear(folder: Path) -> None:
    for path in sorted(folder.glob("events.out.tfevents*")):
        logger.warning("Deleting TensorBoard data %s that was left over from a previous run.", path)
        try:
            path.unlink()
        except OSError as error:  # on Windows while TensorBoard shows it
            logger.warning("It could not be deleted, its curves will show up beside the new ones: %s.", error)
