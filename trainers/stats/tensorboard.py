"""Summaries as TensorBoard event files, one folder per behaviour.

TensorBoard's event files: the few messages that a trainer writes, straight to bytes.

An event file is a row of records, each framed as `length u64, crc u32, data, crc u32` (little-endian, masked
CRC-32C of RFC 3720); the data is a serialized `tensorflow.Event`. Writing the handful of fields that are
needed keeps training free of TensorFlow, of torch.utils and of generated protobuf code, which is bound to a
range of protobuf releases. The tests read the files back with TensorBoard itself.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
import time
from collections.abc import Collection, Iterable, Mapping
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ...envs.base import StatsAggregationMethod
from .summary import StatsSummary
from .writer import StatsPropertyType, StatsWriter, hyperparameter_text

_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5
_DT_STRING = 7
_BINS = 64
_RGB = 3


def scalar(tag: str, value: float) -> bytes:
    """A Summary.Value: one number (stored as float32; beyond its range it becomes an infinity)."""
    with np.errstate(over="ignore"):
        number = np.float32(value).tobytes()
    return _text(1, tag) + _key(2, _FLOAT) + number


def histogram(tag: str, values: NDArray[np.float64]) -> bytes | None:
    """A Summary.Value: how the finite ones of `values` are distributed; None where there is none."""
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    low, high = values.min(), values.max()
    with np.errstate(over="ignore"):
        counts, limits = _bins(values, low, high)
        figures = (low, high, len(values), values.sum(), np.square(values).sum())
    fields = [_key(i, _DOUBLE) + struct.pack("<d", float(x)) for i, x in enumerate(figures, start=1)]
    fields.append(_bytes(6, limits.astype("<f8").tobytes()))
    fields.append(_bytes(7, counts.astype("<f8").tobytes()))
    return _text(1, tag) + _bytes(5, b"".join(fields))


def _bins(
    values: NDArray[np.float64], low: np.float64, high: np.float64
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Counts and upper limits of equal bins; of one bin where the values are too close to be told apart."""
    limits = low + (high / _BINS - low / _BINS) * np.arange(1, _BINS + 1)
    limits[-1] = high
    if not np.all(np.diff(limits, prepend=low) > 0):
        return np.array([float(len(values))]), np.array([high])
    index = np.searchsorted(limits, values)
    return np.bincount(index, minlength=_BINS).astype(np.float64), limits


def text(tag: str, content: str) -> bytes:
    """A Summary.Value: a text for TensorBoard's text tab, in Markdown."""
    shape = _bytes(2, _number(1, 1))
    tensor = _number(1, _DT_STRING) + _bytes(2, shape) + _text(8, content)
    plugin = _bytes(1, _text(1, "text"))
    return _text(1, f"{tag}/text_summary") + _bytes(8, tensor) + _bytes(9, plugin)


def animation(tag: str, gif: bytes, size: tuple[int, int]) -> bytes:
    """A Summary.Value: a GIF of (width, height) pixels, for TensorBoard's images tab."""
    width, height = size
    image = _number(1, height) + _number(2, width) + _number(3, _RGB) + _bytes(4, gif)
    return _text(1, tag) + _bytes(4, image)


def event(wall_time: float, step: int, values: Iterable[bytes]) -> bytes:
    """An Event with a Summary of these values; `wall_time` in seconds since 1970."""
    summary = b"".join(_bytes(1, value) for value in values)
    return _wall_time(wall_time) + _number(2, step) + _bytes(5, summary)


def first_event(wall_time: float) -> bytes:
    """The Event that every file begins with."""
    return _wall_time(wall_time) + _text(3, "brain.Event:2")


def record(data: bytes) -> bytes:
    """A framed record."""
    length = struct.pack("<Q", len(data))
    return b"".join((length, _masked_crc(length), data, _masked_crc(data)))


class EventFile:
    """Appends events to an open, unbuffered file; a failed write leaves no half record behind."""

    def __init__(self, file: BinaryIO, wall_time: float) -> None:
        self._file = file
        self._end = 0
        self._append(record(first_event(wall_time)))

    def write(self, wall_time: float, step: int, values: Iterable[bytes]) -> None:
        """Write one event per value, in one go. Raises OSError."""
        self._append(b"".join(record(event(wall_time, step, [value])) for value in values))

    def _append(self, data: bytes) -> None:
        try:
            written = self._file.write(data)
            if written != len(data):
                raise OSError(f"only {written} of {len(data)} bytes fitted")
        except OSError:
            self._file.truncate(self._end)
            self._file.seek(self._end)
            raise
        self._end += len(data)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


# ---- protobuf's wire format, as far as needed


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _key(field: int, kind: int) -> bytes:
    return _varint(field << 3 | kind)


def _number(field: int, value: int) -> bytes:
    return _key(field, _VARINT) + _varint(value)


def _bytes(field: int, data: bytes) -> bytes:
    return _key(field, _BYTES) + _varint(len(data)) + data


def _text(field: int, content: str) -> bytes:
    return _bytes(field, content.encode("utf-8", "replace"))


def _wall_time(seconds: float) -> bytes:
    return _key(1, _DOUBLE) + struct.pack("<d", seconds)


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc_table()


def _masked_crc(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


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
