"""Lanista trains agents that live in game engines."""

import os
import sys

from ._shadows import COMMANDS, watch_own_commands

watch_own_commands()  # before anything is imported that a file of the current folder could stand for
from typing import TYPE_CHECKING  # noqa: E402

from ._version import __version__  # noqa: E402

if TYPE_CHECKING:
    from .envs.wrappers import make_aec, make_gym, make_parallel, make_sb3, make_vector
    from .trainers.api import TrainingResult, train
    from .trainers.policies.onnx.load import load

__all__ = [
    "TrainingResult",
    "__version__",
    "load",
    "make_aec",
    "make_gym",
    "make_parallel",
    "make_sb3",
    "make_vector",
    "train",
]


def _refuse(message: str) -> None:
    """End one of our commands with one line and status 1; raise ImportError in anybody else's program."""
    command = os.path.splitext(os.path.basename((sys.argv or [""])[0]))[0]
    if command in COMMANDS:
        sys.exit(f"{command}: error: {message}")
    raise ImportError(message)


# Older Pythons can read this file, so that they get a sentence in place of a syntax error elsewhere.
if sys.version_info < (3, 10):  # noqa: UP036
    _refuse(
        f"Lanista needs Python 3.10 or newer, and this is Python {sys.version_info[0]}.{sys.version_info[1]} "
        f"({sys.executable}). Make a virtual environment with a newer one and install Lanista there."
    )


# What follows costs nothing until a name is asked for.
from ._lazy import lazy_exports  # noqa: E402

_MODULES = {
    ".envs.wrappers": ("make_aec", "make_gym", "make_parallel", "make_sb3", "make_vector"),
    ".trainers.api": ("TrainingResult", "train"),
    ".trainers.policies.onnx.load": ("load",),
}

__getattr__, __dir__ = lazy_exports(__name__, _MODULES)
