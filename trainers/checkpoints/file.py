"""One checkpoint file: written atomically, read without executing anything, rejected if damaged."""

from __future__ import annotations

import io
import os
import pickle
import re
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ...envs.utils.regular_files import open_file, read_bytes
from ..utils.atomic_files import atomic_write_bytes
from ..utils.errors import CheckpointError

__all__ = [
    "MISFITS",
    "CheckpointError",
    "load_checkpoint",
    "numbered_checkpoints",
    "save_checkpoint",
    "serialize",
]

MISFITS = (RuntimeError, KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError)
"""The errors that loading an entry of the wrong type or size raises."""
MOST_VALUES = 1_000_000
"""The most values of a checkpoint, with tensors and containers. Checkpoints of large runs have some
thousands."""
_ZIP = b"PK\x03\x04"
_SEARCHED = 1 << 20
"""Bytes at the beginning of a file that are read before it is known to be a checkpoint."""
_TENSORS = (torch.Tensor, torch.nn.Parameter)
_MAPPINGS = (dict, OrderedDict)
_SEQUENCES = (list, tuple, torch.Size)
_PLAIN = (type(None), bool, int, float, str, bytes)


def save_checkpoint(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Write `state` (names to tensors, numbers, texts, bytes and containers of these) to `path`, atomically.

    Raises:
        CheckpointError: a value that `load_checkpoint` would refuse, or a number that is not finite.
        OSError: the file system; an old file at `path` is then as it was.
    """
    atomic_write_bytes(path, serialize(state))


def load_checkpoint(
    path: str | os.PathLike[str], device: str | torch.device = "cpu", within: Path | None = None
) -> dict[str, Any]:
    """Read what `save_checkpoint` (or ML-Agents) wrote, its tensors on `device`.

    Nothing in the file is executed (`weights_only`), and every byte is checked against the archive's
    checksums, which torch alone does not do: a truncated or altered file is rejected. `within`: the folder of
    the run that it must lie in.

    Raises:
        CheckpointError: names the file, what is wrong with it and what can be used instead.
    """
    file = Path(path)
    try:
        with open_file(file, within) as opened:
            size = os.fstat(opened.fileno()).st_size
            data = opened.read(_SEARCHED)
        if data.startswith(_ZIP):
            data = read_bytes(file, within=within)
    except OSError as error:
        raise CheckpointError(f"The checkpoint {file} cannot be read: {error.strerror or error}.") from error
    try:
        if not data.startswith(_ZIP):
            raise zipfile.BadZipFile("not a zip file")
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if (size := sum(part.file_size for part in archive.infolist())) > len(data):
                raise zipfile.BadZipFile(f"its parts take {size:,} bytes, more than the file has")
            damaged = archive.testzip()
        if damaged is not None:
            raise zipfile.BadZipFile(f"the checksum of its part {damaged!r} is wrong")
        state = torch.load(io.BytesIO(data), map_location=device, weights_only=True)
        if not isinstance(state, dict):
            raise TypeError(f"it holds a {type(state).__name__}, not modules by name")
        _require_stored(state)
    except Exception as error:  # torch and zipfile raise a dozen types for a damaged file
        before = max(data.find(_ZIP), 0)
        raise CheckpointError(_complaint(file, size, before, error)) from error
    return state


def _require_stored(state: Any) -> None:
    """Refuse what a small file can claim to hold: terabytes of numbers, or values without end.

    Raises:
        ValueError: a tensor repeats its numbers, or there are more than `MOST_VALUES`, as in lists that hold
            the same list many times.
    """
    waiting, seen = [state], 0
    while waiting:
        value = waiting.pop()
        seen += 1
        if seen > MOST_VALUES:
            raise ValueError(f"it holds more than {MOST_VALUES:,} values, or contains itself")
        if isinstance(value, torch.Tensor):
            if value.numel() * value.element_size() > value.untyped_storage().nbytes():
                raise ValueError(
                    f"it holds a tensor of the shape {list(value.shape)}, whose numbers are not there"
                )
        elif isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, (list, tuple)):
            waiting += value


def not_finite(state: Any, where: str = "") -> str | None:
    """The name of the first tensor with NaN or infinite numbers, which would make every later one NaN."""
    if isinstance(state, torch.Tensor):
        fine = not state.is_floating_point() or bool(torch.isfinite(state).all())
        return None if fine else where
    if isinstance(state, (Mapping, list, tuple)):
        for key, value in state.items() if isinstance(state, Mapping) else enumerate(state):
            if found := not_finite(value, f"{where}.{key}" if where else str(key)):
                return found
    return None


def _complaint(file: Path, size: int, before: int, error: Exception) -> str:
    """Why a file of `size` bytes, whose archive begins at byte `before`, cannot be used."""
    if size == 0:
        cause = "it is empty"
    elif before:
        cause = f"{before} bytes that are not its own stand before it"
    elif isinstance(error, pickle.UnpicklingError):
        named = re.search(r"GLOBAL ([\w.]+)", str(error))
        cause = (
            f"it holds {named[1] if named else 'something'}, which is neither a tensor, a "
            "number nor text, and is not loaded: it could run any program"
        )
    elif isinstance(error, zipfile.BadZipFile) and "not a zip file" in str(error):
        cause = "it is cut off, or it is no checkpoint at all"
    elif "PytorchStreamReader" in str(error):  # torch says it at length, and with objects in memory
        cause = "numbers that it names are not in it"
    else:
        cause = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    others = [path for _, path in numbered_checkpoints(file.parent) if path != file]
    advice = (
        "Other checkpoints in its folder: " + ", ".join(path.name for path in others[:5])
        if others
        else "There is no other checkpoint in its folder: restore the file from a copy, or train again"
    )
    return f"The checkpoint {file} ({size} bytes) cannot be used: {cause}. {advice}."


def numbered_checkpoints(folder: Path, behavior: str | None = None) -> list[tuple[int, Path]]:
    """(step, path) of the files `<behavior>-<step>.pt` in `folder`, the newest first."""
    pattern = re.compile((re.escape(behavior) if behavior else ".+") + r"-([0-9]+)\.pt")
    found = []
    if folder.is_dir():
        for entry in os.scandir(folder):
            match = pattern.fullmatch(entry.name)
            if match:
                found.append((int(match[1]), Path(entry.path)))
    return sorted(found, reverse=True)


def serialize(state: Mapping[str, Any]) -> bytes:
    """The bytes of a checkpoint file. Raises CheckpointError as `save_checkpoint` does."""
    state = dict(state)
    _check(state, "")
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def _check(value: Any, where: str) -> None:
    """Reject what could not be read back, and weights that would poison every later run."""
    kind = type(value)  # exact: subclasses (a NumPy float is a float) are stored as foreign objects
    if kind in _TENSORS:
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise CheckpointError(f"Not saved: {where or 'the state'} holds NaN or infinite numbers.")
    elif kind in _MAPPINGS:
        for key, item in value.items():
            _check(key, f"the key {key!r} in {where or 'the state'}")
            _check(item, f"{where}.{key}" if where else str(key))
    elif kind in _SEQUENCES:
        for index, item in enumerate(value):
            _check(item, f"{where}[{index}]")
    elif kind not in _PLAIN:
        raise CheckpointError(
            f"Not saved: {where or 'the state'} is a {kind.__module__}.{kind.__qualname__}; "
            "expected tensors, numbers, texts, bytes, and lists, tuples or dictionaries of these."
        )
