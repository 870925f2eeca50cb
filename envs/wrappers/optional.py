"""Modules of this package that need packages which not everybody has."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOW = {
    "gymnasium": "pip install 'lanista[gymnasium]'",
    "pettingzoo": "pip install 'lanista[pettingzoo]'",
    "stable_baselines3": "pip install stable-baselines3",
}


def load(module: str) -> Any:
    """A module of this package by its name.

    Raises:
        ImportError: A package is missing; the message says how to get it.
    """
    try:
        return import_module(f".{module}", __package__)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _HOW:
            raise
        raise ImportError(f"This needs the package {missing}, which is missing: {_HOW[missing]}.") from error
