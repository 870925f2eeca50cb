"""A run's replay in a file beside its checkpoint: arrays as they lie in memory, verified when read.

    8 bytes     b"LANISTAR"
    8 bytes     length of the head, little-endian
    head        JSON: {"version": 1, "about": {...}, "arrays": [{"name", "dtype", "shape", "rows"}, ...]}
    arrays      each array's parts (`rows`, first and last row) one after another
    tail        JSON: {"crc32": [...]}, of the head and of each array
    8 bytes     length of the tail, little-endian

No array is in memory twice: they are written in pieces, and read through a memory map.
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

from ....envs.utils.bounded_yaml import load_json
from ....envs.utils.regular_files import open_file
from ...utils.atomic_files import atomic_write
from .buffer import Replay
from .columns import ReplayLayout
from .memory_limit import size_text
from .observations import SavedRows

MAGIC, VERSION = b"LANISTAR", 1
PIECE = 16 * 2**20
"""The number of bytes that are written, or read and verified, at once."""


class ReplayFileError(Exception):
    """A saved replay that cannot be used; the message says why."""


def write_replay(path: Path, about: Mapping[str, Any], arrays: Mapping[str, SavedRows]) -> None:
    """Replace `path`, atomically.

    Args:
        path: of the file.
        about: JSON-serializable.
        arrays: the rows to be saved of each.

    Raises:
        OSError: the file system; an existing file is left as it was.
    """
    atomic_write(path, lambda file: _write(file, about, arrays))


def _write(file: BinaryIO, about: Mapping[str, Any], arrays: Mapping[str, SavedRows]) -> None:
    described = [
        {
            "name": name,
            "dtype": saved.array.dtype.str,
            "shape": list(saved.array.shape[1:]),
            "rows": [[part.start, part.stop] for part in saved.rows],
        }
        for name, saved in arrays.items()
    ]
    head = json.dumps({"version": VERSION, "about": dict(about), "arrays": described}).encode()
    file.write(MAGIC + struct.pack("<Q", len(head)) + head)
    sums = [zlib.crc32(head)]
    for saved in arrays.values():
        crc = 0
        for piece in _pieces(saved):
            data = piece.reshape(-1).view(np.uint8).data
            crc = zlib.crc32(data, crc)
            file.write(data)
        sums.append(crc)
    tail = json.dumps({"crc32": sums}).encode()
    file.write(tail + struct.pack("<Q", len(tail)))


def _pieces(saved: SavedRows) -> Iterator[NDArray[Any]]:
    """The saved rows in pieces of about `PIECE` bytes."""
    row = max(1, prod(saved.array.shape[1:]) * saved.array.itemsize)
    step = max(1, PIECE // row)
    for part in saved.rows:
        for start in range(part.start, part.stop, step):
            yield saved.array[start : min(start + step, part.stop)]


class SavedReplay:
    """A file that `write_replay` made."""

    def __init__(self, path: Path) -> None:
        """Read the description.

        Raises:
            FileNotFoundError: there is no such file.
            ReplayFileError: it is damaged, or of another version.
        """
        self._path = path
        try:
            with open_file(path) as file:
                head = self._read(file)
        except FileNotFoundError:
            raise
        except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
            raise ReplayFileError(f"it is cut off or damaged ({type(error).__name__}: {error})") from error
        if head["version"] != VERSION:
            raise ReplayFileError(f"it is of version {head['version']}, and this Lanista reads {VERSION}")
        self.about: dict[str, Any] = head["about"]
        self._arrays: list[dict[str, Any]] = head["arrays"]

    def _read(self, file: BinaryIO) -> dict[str, Any]:
        """Read the head, and note where the arrays begin and end, and their checksums."""
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
        self._sums: list[int] = load_json(file.read(tail))["crc32"]
        if zlib.crc32(head) != self._sums[0]:
            raise ReplayFileError("it is damaged: the checksum of its head is wrong")
        found: dict[str, Any] = load_json(head)
        return found

    def fill(self, arrays: Mapping[str, SavedRows]) -> None:
        """Copy everything into the arrays, whose rows must be those that were saved.

        Raises:
            ReplayFileError: it is damaged, or holds other arrays. Some may have been filled.
        """
        try:
            self._fill(arrays)
        except (OSError, ValueError, KeyError, struct.error) as error:
            raise ReplayFileError(f"it is damaged: {error}") from error

    def _fill(self, arrays: Mapping[str, SavedRows]) -> None:
        for saved in self._arrays:
            target = arrays.get(saved["name"])
            if target is None or _described(target) != (saved["dtype"], saved["shape"], saved["rows"]):
                raise ReplayFileError(f"its {saved['name']} is of another behavior or other settings")
        if len(arrays) != len(self._arrays):
            raise ReplayFileError("it lacks columns that this behavior has with these settings")
        wanted = sum(_nbytes(saved) for saved in self._arrays)
        if wanted != self._end - self._begin:
            raise ReplayFileError(f"it has {self._end - self._begin} bytes of arrays, expected {wanted}")
        mapped = np.memmap(self._path, np.uint8, "r")
        offset = self._begin
        for saved, crc in zip(self._arrays, self._sums[1:], strict=True):
            offset, found = _copy(mapped, offset, arrays[saved["name"]])
            if found != crc:
                raise ReplayFileError(f"it is damaged: the checksum of its {saved['name']} is wrong")


def _described(saved: SavedRows) -> tuple[str, list[int], list[list[int]]]:
    rows = [[part.start, part.stop] for part in saved.rows]
    return saved.array.dtype.str, list(saved.array.shape[1:]), rows


def _nbytes(saved: Mapping[str, Any]) -> int:
    rows = sum(stop - start for start, stop in saved["rows"])
    return int(rows * prod(saved["shape"]) * np.dtype(saved["dtype"]).itemsize)


def _copy(mapped: NDArray[np.uint8], offset: int, saved: SavedRows) -> tuple[int, int]:
    """Fill an array from `offset` on; returns the offset after it, and the checksum."""
    crc = 0
    for piece in _pieces(saved):
        flat = piece.reshape(-1).view(np.uint8)
        flat[:] = mapped[offset : offset + len(flat)]
        crc = zlib.crc32(flat.data, crc)
        offset += len(flat)
    return offset, crc


logger = logging.getLogger(__name__)

FILE = "last_replay_buffer.replay"
"""The file in the behavior's folder; it belongs to the newest checkpoint, older ones have none."""

_SETTINGS = {"longest": "time horizon"}
"""The users' names of entries of a layout that are named differently here."""

NOT_LOADED = "Replay buffer was unable to load, starting from scratch."
"""The beginning of a warning, which is ML-Agents' own line."""


def save_replay(name: str, folder: Path, replay: Replay, step: int) -> bool:
    """Write the replay of the behavior `name` at `step`; False, after a warning, if that fails."""
    path = folder / FILE
    about = {"step": step, "layout": _described_layout(replay.layout), "state": replay.state()}
    try:
        write_replay(path, about, replay.saved_rows())
    except OSError as error:
        logger.warning(
            "%s: the replay of step %d could not be saved (%s); the checkpoint has been saved, and training "
            "continues. %s is unchanged. It takes up to %s, and temporarily twice that.",
            name,
            step,
            error,
            path,
            size_text(replay.layout.nbytes()),
        )
        return False
    return True


def load_replay(name: str, folder: Path, new: Replay, step: int, unfit: str = "") -> Replay | None:
    """The saved replay of the behavior `name`, for a run that resumes at `step`.

    Args:
        name: of the behavior.
        folder: of the behavior.
        new: an empty replay of the same settings; its layout may differ in which images come as bytes.
        step: of the checkpoint.
        unfit: why what was saved does not fit the settings; "": it does.

    Returns:
        None, after a warning, if there is none or it cannot be used.
    """
    path = folder / FILE
    held = 0
    try:
        saved = SavedReplay(path)
        state = saved.about["state"]
        held = int(state["head"]) - int(state["tail"])
        if unfit:
            raise ReplayFileError(unfit)
        loaded = _like(new, saved.about["layout"])
        loaded.restore(state)
        saved.fill(loaded.saved_rows())
        loaded.after_load()
    except FileNotFoundError:
        logger.warning("%s %s: there is no %s.", NOT_LOADED, name, path)
        return None
    except (ReplayFileError, KeyError, TypeError, ValueError, MemoryError) as error:
        dropped = f"Its {held:,} steps are dropped" if held else "What it held is dropped"
        logger.warning("%s %s: %s: %s. %s.", NOT_LOADED, name, path, error, dropped)
        return None
    of = int(saved.about["step"])
    difference = "" if of == step else f" It is of step {of:,}, the checkpoint of step {step:,}."
    logger.info("%s: the replay holds %s steps of %s.%s", name, f"{held:,}", path, difference)
    return loaded


def _like(new: Replay, described: dict[str, Any]) -> Replay:
    """An empty replay with the layout of the saved one.

    Raises:
        ReplayFileError: that does not fit the behavior or its settings.
    """
    layout = replace(new.layout, dtypes=tuple(np.dtype(name) for name in described["dtypes"]))
    wanted = _described_layout(layout)
    if max(layout.stacks, default=1) == 1:
        del wanted["longest"]  # without stacks the length of trajectories does not matter
    for key, value in wanted.items():
        if described.get(key) != value:
            known = _SETTINGS.get(key, key.replace("_", " "))
            raise ReplayFileError(f"its {known} is {described.get(key)}, with the current settings {value}")
    return new if layout == new.layout else Replay(layout, new.alpha, own_observation=new.own_observation)


def _described_layout(layout: ReplayLayout) -> dict[str, Any]:
    """A layout as JSON."""
    described = asdict(layout)
    described["dtypes"] = [np.dtype(dtype).name for dtype in layout.dtypes]
    described["extra"] = [[e.name, list(e.shape), np.dtype(e.dtype).name] for e in layout.extra]
    return {key: _listed(value) for key, value in described.items()}


def _listed(value: Any) -> Any:
    return [_listed(one) for one in value] if isinstance(value, tuple) else value
