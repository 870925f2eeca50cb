"""The words for an environment that is not open yet, by the name that stands after `--env`."""

from __future__ import annotations

from .engines.terms import GODOT, PYTHON, Terms
from .godot import is_godot
from .python import in_process
from .unity.launch import terms_of_engine


def terms_for(path: str | None) -> Terms:
    """The words for the environment of this name; of None for the Unity Editor."""
    if is_godot(path):
        return GODOT
    return PYTHON if in_process(path) else terms_of_engine(path)
