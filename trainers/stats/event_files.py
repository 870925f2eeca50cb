"""Reads what TensorBoard's event files and the tables of `csv` hold: the curves of a run.

TensorBoard's own readers verify every record in Python, which takes a second per megabyte; here a record is
found by its length and decoded by protobuf. Files of ML-Agents are read as well as Lanista's.
"""

from __future__ import annotations

import csv
import io
import os
import re
import struct
from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ...envs.utils.regular_files import read_bytes

PATTERN = "events.out.tfevents*"
FILE_NAME = "summaries.csv"
OF_INFERENCE = "-inference"
"""The ending of files that an inference writes beside a run's own: nothing was learned meanwhile."""
FIRST_COLUMNS = ("step", "time")
"""The first columns of the table: the trainer's step, and seconds since 1970 as in TensorBoard's files."""
_HEADER = struct.Struct("<QI")
"""Length of a record, and the checksum of these eight bytes."""
_FOOTER = 4
MOST_BYTES = 1 << 30
"""The most bytes of a file of curves: with a video of every evaluation, a long run has some hundred MiB."""


class EventFileError(Exception):
    """Something in the file is not what was written; says where."""


@dataclass
class Curve:
    """The values of one tag, in the order in which they were written."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    """The trainer's steps."""
    values: array[float] = field(default_factory=lambda: array("d"))
    times: array[float] = field(default_factory=lambda: array("d"))
    """The times of the values, in seconds since 1970."""

    def add(self, step: int, value: float, time: float) -> None:
        """Append a point."""
        self.steps.append(step)
        self.values.append(value)
        self.times.append(time)

    def cut(self, step: int) -> None:
        """Drop the points at `step` and later: a resumed run has taken these steps anew."""
        keep = len(self.steps)
        while keep and self.steps[keep - 1] >= step:
            keep -= 1
        del self.steps[keep:], self.values[keep:], self.times[keep:]


@dataclass
class Curves:
    """The curves of one behavior."""

    by_tag: dict[str, Curve] = field(default_factory=dict)
    starts: list[float] = field(default_factory=list)
    """When each process began to write, in seconds since 1970."""
    problems: list[str] = field(default_factory=list)
    """What could not be read, and where."""


@dataclass
class Extent:
    """How far a behavior has come, which is read without decoding its summaries."""

    step: int = 0
    time: float = 0.0
    """The time of the last event, in seconds since 1970."""
    values: dict[str, list[float]] = field(default_factory=dict)
    """The values of each tag that was asked for."""
    problems: list[str] = field(default_factory=list)


def event_files(folder: Path) -> list[Path]:
    """The event files of a behavior's training, the oldest first: their names begin with their time."""
    return sorted(path for path in folder.glob(PATTERN) if not path.name.endswith(OF_INFERENCE))


def read_curves(folder: Path, run: Path | None = None) -> Curves:
    """All scalars of a behavior: of its event files or, where there are none, of its table.

    Args:
        folder: the behavior's.
        run: the run's folder, out of which nothing is read; the folder above if None.
    """
    read = Curves()
    run = folder.parent if run is None else run
    for path in event_files(folder):
        try:
            _read_file(path, run, read)
        except (EventFileError, OSError) as error:
            read.problems.append(_problem(path, error))
    table = folder / FILE_NAME
    if not read.by_tag and os.path.lexists(table):
        try:
            _read_table(table, run, read)
        except (OSError, ValueError, csv.Error) as error:
            read.problems.append(_problem(table, error))
    return read


def _problem(path: Path, error: Exception) -> str:
    return f"{path.name}: {error.strerror if isinstance(error, OSError) else error}"


def read_extent(folder: Path, tags: tuple[str, ...]) -> Extent:
    """The last step and the values of a few tags: quick enough for a thousand runs."""
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.event_pb2 import Event

    extent = Extent()
    paths = event_files(folder)
    if not paths:
        return _extent_of(read_curves(folder), tags)
    for path in paths:
        last: slice | None = None
        try:
            data = read_bytes(path, MOST_BYTES, folder.parent)
            last = next(iter(deque(_records(data), maxlen=1)), None)
        except (EventFileError, OSError) as error:
            extent.problems.append(_problem(path, error))
        if last is None:
            continue
        try:
            event = Event.FromString(data[last])
        except DecodeError:
            extent.problems.append(f"{path.name}: the record at byte {last.start} is no event")
            continue
        extent.step, extent.time = max(extent.step, event.step), max(extent.time, event.wall_time)
        for tag in tags:
            found = [struct.unpack("<f", bytes_)[0] for bytes_ in _pattern(tag).findall(data, 0, last.stop)]
            extent.values.setdefault(tag, []).extend(found)
    return extent


def _extent_of(curves: Curves, tags: tuple[str, ...]) -> Extent:
    """The extent of curves that have been read."""
    extent = Extent(problems=curves.problems)
    for tag, curve in curves.by_tag.items():
        extent.step, extent.time = max(extent.step, curve.steps[-1]), max(extent.time, curve.times[-1])
        if tag in tags:
            extent.values[tag] = curve.values.tolist()
    return extent


def _pattern(tag: str) -> re.Pattern[bytes]:
    """A `Summary.Value` of a scalar, as protobuf writes it: field 1, the tag, and field 2, four bytes."""
    name = tag.encode()
    return re.compile(re.escape(b"\x0a" + bytes([len(name)]) + name + b"\x15") + b"(.{4})", re.DOTALL)


def _records(data: bytes) -> Iterator[slice]:
    """Where each record of a file lies. One that is still being written, or was never finished, is left out.

    Raises:
        EventFileError: what stands where a length should is none.
    """
    position, size = 0, len(data)
    while position + _HEADER.size <= size:
        length, checksum = _HEADER.unpack_from(data, position)
        start = position + _HEADER.size
        if start + length + _FOOTER > size or not length:
            from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c  # costs 0.4 s

            if masked_crc32c(data[position : position + 8]) != checksum or not length:
                raise EventFileError(f"what follows byte {position} of {size} is no record")
            return
        yield slice(start, start + length)
        position = start + length + _FOOTER


def _read_file(path: Path, run: Path, read: Curves) -> None:
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.event_pb2 import Event

    data = read_bytes(path, MOST_BYTES, run)
    seen: set[str] = set()
    lost = 0
    for number, record in enumerate(_records(data)):
        try:
            event = Event.FromString(data[record])
        except DecodeError:
            lost += 1
            continue
        if not number:
            read.starts.append(event.wall_time)
        for value in event.summary.value:
            if value.WhichOneof("value") != "simple_value":
                continue
            curve = read.by_tag.setdefault(value.tag, Curve())
            if value.tag not in seen:
                seen.add(value.tag)
                curve.cut(event.step)
            curve.add(event.step, value.simple_value, event.wall_time)
    if lost:
        read.problems.append(f"{path.name}: {lost} records are no events")


def _read_table(path: Path, run: Path, read: Curves) -> None:
    """The rows of a table, but for one that is still being written, or was never finished."""
    data = read_bytes(path, MOST_BYTES, run)
    text = data[: data.rfind(b"\n") + 1].decode()
    table = csv.DictReader(io.StringIO(text, newline=""))
    if tuple(table.fieldnames or ())[:2] != FIRST_COLUMNS:
        raise ValueError(f"its columns do not begin with {', '.join(FIRST_COLUMNS)}")
    for row in table:
        if None in row or row["time"] is None:
            raise ValueError(f"line {table.line_num} does not fit its columns")
        step, time = int(row["step"]), float(row["time"])
        if not 0 <= step < 2**63:
            raise ValueError(f"line {table.line_num}: {step} is no number of steps")
        if not read.starts:
            read.starts.append(time)
        for tag, cell in row.items():
            if cell and tag not in FIRST_COLUMNS:
                value = float(cell)
                curve = read.by_tag.setdefault(tag, Curve())
                if curve.steps and curve.steps[-1] >= step:
                    curve.cut(step)
                curve.add(step, value, time)
