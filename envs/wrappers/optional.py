"""Import modules of this package that need optional dependencies."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..utils.installation import install_command

_EXTRAS = ("gymnasium", "pettingzoo")
_OTHERS = {"stable_baselines3": "stable-baselines3"}


def load(module: str) -> Any:
    """Import a module of this package by name.

    Raises:
        ImportError: A dependency is missing; the message says how to install it.
    """
    try:
        return import_module(f".{module}", __package__)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in (*_EXTRAS, *_OTHERS):
            raise
        command = install_command(missing) if missing in _EXTRAS else f"pip install {_OTHERS[missing]}"
        raise ImportError(f"This needs the package {missing}, which is not installed: {command}.") from error
