"""Import modules of this package that need optional dependencies."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_INSTALL_COMMANDS = {
    "gymnasium": "pip install 'lanista[gymnasium]'",
    "pettingzoo": "pip install 'lanista[pettingzoo]'",
    "stable_baselines3": "pip install stable-baselines3",
}


def load(module: str) -> Any:
    """Import a module of this package by name.

    Raises:
        ImportError: A dependency is missing; the message says how to install it.
    """
    try:
        return import_module(f".{module}", __package__)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _INSTALL_COMMANDS:
            raise
        raise ImportError(
            f"This needs the package {missing}, which is not installed: {_INSTALL_COMMANDS[missing]}."
        ) from error
