"""How each kind of engine writes errors into its log: a reader of lines for each."""

from __future__ import annotations

from .base import ErrorReader, FoundError
from .godot import GodotErrorReader
from .python import PythonErrorReader
from .unity import UnityErrorReader
from .unreal import UnrealErrorReader

__all__ = ["ErrorReader", "FoundError", "PythonErrorReader", "reader_of"]

_READERS: dict[str, type[ErrorReader]] = {
    reader.engine: reader
    for reader in (UnityErrorReader, GodotErrorReader, UnrealErrorReader, PythonErrorReader)
}


def reader_of(engine: str) -> ErrorReader:
    """A reader for one log of an engine.

    Args:
        engine: The engine's kind: `Unity`, `Godot`, `Unreal` or `Python`.
    """
    return _READERS[engine]()
