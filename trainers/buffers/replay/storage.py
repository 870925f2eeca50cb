"""A replay in a file: arrays one behind another, written as they lie in memory, and checked when read.

    8 bytes     b"LANISTAR"
    8 bytes     length of the head, little-endian
    head        JSON: {"version": 1, "about": {...}, "arrays": [{"name", "dtype", "shape", "rows"}, ...]}
    arrays      each array's parts (`rows`, first and last row) one behind another
    tail        JSON: {"crc32": [...]}, of the head and of each array
    8 bytes     length of the tail, little-endian

Nothing is held twice: arrays go to the disk in pieces, and come back through a map of the file.

A run's replay beside its checkpoint.
"""

from __future__ import annotations

import json
import logging
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ...utils.atomic_files import atomic_write
from .buffer import Replay
from .columns import ReplayLayout
from .memory_limit import size_text
from .observations import Kept

MAGIC, VERSION = b"LANISTAR", 1
PIECE = 16 * 2**20
"""Bytes that are written, or read and checked, at once."""


class ReplayFileError(Exception):
    """A saved replay that cannot be used: what is wrong with it."""


def write_replay(path: Path, about: Mapping[str, Any], arrays: Mapping[str, Kept]) -> None:
    """Replace `path`, atomically.

    Args:
        path: of the file.
        about: what JSON can hold.
        arrays: what is to be saved of each.

    Raises:
        OSError: the file system; an old file is then as it was.
    """
    atomic_write(path, lambda file: _write(file, about, arrays))


def _write(file: BinaryIO, about: Mapping[str, Any], arrays: Mapping[str, Kept]) -> None:
    described = [
        {
            "name": name,
            "dtype": kept.array.dtype.str,
            "shape": list(kept.array.shape[1:]),
            "rows": [[part.start, part.stop] for part in kept.rows],
        }
        for name, kept in arrays.items()
    ]
    head = json.dumps({"version": VERSION, "about": dict(about), "arrays": described}).encode()
    file.write(MAGIC + struct.pack("<Q", len(head)) + head)
    sums = [zlib.crc32(head)]
    for kept in arrays.values():
        crc = 0
        for piece in _pieces(kept):
            data = piece.reshape(-1).view(np.uint8).data
            crc = zlib.crc32(data, crc)
            file.write(data)
        sums.append(crc)
    tail = json.dumps({"crc32": sums}).encode()
    file.write(tail + struct.pack("<Q", len(tail)))


def _pieces(kept: Kept) -> Iterator[NDArray[Any]]:
    """The rows, some at a time."""
    row = max(1, prod(kept.array.shape[1:]) * kept.array.itemsize)
    step = max(1, PIECE // row)
    for part in kept.rows:
        for start in range(part.start, part.stop, step):
            yield kept.array[start : min(start + step, part.stop)]


class SavedReplay:
    """A file that `write_replay` made."""

    def __init__(self, path: Path) -> None:
        """Read what it says of itself.

        Raises:
            FileNotFoundError: there is none.
            ReplayFileError: it is damaged, or of another version.
        """
        self._path = path
        try:
            with open(path, "rb") as file:
                head = self._read(file)
        except FileNotFoundError:
            raise
        except (OSError, ValueError, KeyError, struct.error) as error:
            raise ReplayFileError(f"it is cut off or damaged ({type(error).__name__}: {error})") from error
        if head["version"] != VERSION:
            raise ReplayFileError(f"it is of version {head['version']}, and this Lanista reads {VERSION}")
        self.about: dict[str, Any] = head["about"]
        self._arrays: list[dict[str, Any]] = head["arrays"]

    def _read(self, file: BinaryIO) -> dict[str, Any]:
        """The head; and where the arrays begin and end, and their checksums."""
        size = file.seek(0, 2)
        file.seek(0)
        if file.read(len(MAGIC)) != MAGIC:
            raise ReplayFileError("it does not begin as a saved replay does")
        (length,) = struct.unpack("<Q", file.read(8))
        self._begin = file.tell() + length
        if self._begin > size - 8:
            raise ReplayFileError("it is cut off")
        head = file.read(length)
        file.seek(size - 8)
        (tail,) = struct.unpack("<Q", file.read(8))
        self._end = size - 8 - tail
        if self._end < self._begin:
            raise ReplayFileError("it is cut off")
        file.seek(self._end)
        self._sums: list[int] = json.loads(file.read(tail))["crc32"]
        if zlib.crc32(head) != self._sums[0]:
            raise ReplayFileError("it is damaged: the checksum of its head is wrong")
        found: dict[str, Any] = json.loads(head)
        return found

    def fill(self, arrays: Mapping[str, Kept]) -> None:
        """Copy everything into the arrays, whose rows must be those that were saved.

        Raises:
            ReplayFileError: it is damaged, or holds other arrays than these. Some are filled then.
        """
        try:
            self._fill(arrays)
        except (OSError, ValueError, KeyError, struct.error) as error:
            raise ReplayFileError(f"it is damaged: {error}") from error

    def _fill(self, arrays: Mapping[str, Kept]) -> None:
        for saved in self._arrays:
            kept = arrays.get(saved["name"])
            if kept is None or _described(kept) != (saved["dtype"], saved["shape"], saved["rows"]):
                raise ReplayFileError(f"its {saved['name']} is of another behavior or other settings")
        if len(arrays) != len(self._arrays):
            raise ReplayFileError("it lacks columns that this behavior has with these settings")
        wanted = sum(_nbytes(saved) for saved in self._arrays)
        if wanted != self._end - self._begin:
            raise ReplayFileError(f"it has {self._end - self._begin} bytes of arrays, expected {wanted}")
        mapped = np.memmap(self._path, np.uint8, "r")
        place = self._begin
        for saved, crc in zip(self._arrays, self._sums[1:], strict=True):
            place, found = _copy(mapped, place, arrays[saved["name"]])
            if found != crc:
                raise ReplayFileError(f"it is damaged: the checksum of its {saved['name']} is wrong")


def _described(kept: Kept) -> tuple[str, list[int], list[list[int]]]:
    rows = [[part.start, part.stop] for part in kept.rows]
    return kept.array.dtype.str, list(kept.array.shape[1:]), rows


def _nbytes(saved: Mapping[str, Any]) -> int:
    rows = sum(stop - start for start, stop in saved["rows"])
    return int(rows * prod(saved["shape"]) * np.dtype(saved["dtype"]).itemsize)


def _copy(mapped: NDArray[np.uint8], place: int, kept: Kept) -> tuple[int, int]:
    """Fill an array from `place` on; the place behind it, and the checksum."""
    crc = 0
    for piece in _pieces(kept):
        flat = piece.reshape(-1).view(np.uint8)
        flat[:] = mapped[place : place + len(flat)]
        crc = zlib.crc32(flat.data, crc)
        place += len(flat)
    return place, crc


logger = logging.getLogger(__name__)

FILE = "last_replay_buffer.replay"
"""In the behaviour's folder. The one of the newest checkpoint: older ones have none."""

_SETTINGS = {"longest": "time horizon"}
"""What users call those entries of a layout that have another name here."""

NOT_LOADED = "Replay buffer was unable to load, starting from scratch."
"""ML-Agents' own line."""


def save_replay(name: str, folder: Path, replay: Replay, step: int) -> bool:
    """Write the replay of the behaviour `name` at `step`; False, after a warning, where that fails."""
    path = folder / FILE
    about = {"step": step, "layout": _described_layout(replay.layout), "state": replay.state()}
    try:
        write_replay(path, about, replay.kept())
    except OSError as error:
        logger.warning(
            "%s: the replay of step %d could not be saved (%s); the checkpoint is, and training goes on. %s "
            "is as it was. It takes up to %s, for a moment twice that.",
            *(name, step, error, path, size_text(replay.layout.nbytes())),
        )
        return False
    return True


def load_replay(name: str, folder: Path, new: Replay, step: int) -> Replay | None:
    """The saved replay of the behaviour `name`, for a run that goes on at `step`.

    Args:
        name: of the behaviour.
        folder: of the behaviour.
        new: an empty replay that would be used else. Its layout may still be wrong about which pictures come
            as bytes.
        step: of the checkpoint.

    Returns:
        None, after a warning, where there is none or it cannot be used.
    """
    path = folder / FILE
    held = 0
    try:
        saved = SavedReplay(path)
        state = saved.about["state"]
        held = int(state["head"]) - int(state["tail"])
        loaded = _like(new, saved.about["layout"])
        loaded.restore(state)
        saved.fill(loaded.kept())
        loaded.restored()
    except FileNotFoundError:
        logger.warning("%s %s: there is no %s.", NOT_LOADED, name, path)
        return None
    except (ReplayFileError, KeyError, TypeError, ValueError, MemoryError) as error:
        dropped = f"Its {held:,} steps are dropped" if held else "What it held is dropped"
        logger.warning("%s %s: %s: %s. %s.", NOT_LOADED, name, path, error, dropped)
        return None
    of = int(saved.about["step"])
    behind = "" if of == step else f" It is of step {of:,}, the checkpoint of step {step:,}."
    logger.info("%s: the replay holds %s steps of %s.%s", name, f"{held:,}", path, behind)
    return loaded


def _like(new: Replay, described: dict[str, Any]) -> Replay:
    """An empty replay as the saved one was.

    Raises:
        ReplayFileError: it does not fit the behaviour, or its settings.
    """
    layout = replace(new.layout, dtypes=tuple(np.dtype(name) for name in described["dtypes"]))
    wanted = _described_layout(layout)
    if max(layout.stacks, default=1) == 1:
        del wanted["longest"]  # trajectories of any length are kept alike
    for key, value in wanted.items():
        if described.get(key) != value:
            known = _SETTINGS.get(key, key.replace("_", " "))
            raise ReplayFileError(f"its {known} is {described.get(key)}, with the settings of now {value}")
    return new if layout == new.layout else Replay(layout, new.alpha)


def _described_layout(layout: ReplayLayout) -> dict[str, Any]:
    """A layout as JSON has it."""
    told = asdict(layout)
    told["dtypes"] = [np.dtype(dtype).name for dtype in layout.dtypes]
    told["extra"] = [[e.name, list(e.shape), np.dtype(e.dtype).name] for e in layout.extra]
    return {key: _listed(value) for key, value in told.items()}


def _listed(value: Any) -> Any:
    return [_listed(one) for one in value] if isinstance(value, tuple) else value
