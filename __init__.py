"""Lanista trains agents that live in game engines."""

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .trainers.policies.onnx.load import load

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def _refuse(message: str) -> None:
    """End one of our commands with one line and status 1; raise ImportError in anybody else's program."""
    command = os.path.splitext(os.path.basename((sys.argv or [""])[0]))[0]
    if command in ("lanista", "lanista-learn"):
        sys.exit(f"{command}: error: {message}")
    raise ImportError(message)


# Older Pythons can read this file, so that they get a sentence in place of a syntax error elsewhere.
if sys.version_info < (3, 10):  # noqa: UP036
    _refuse(
        f"Lanista needs Python 3.10 or newer, and this is Python {sys.version_info[0]}.{sys.version_info[1]} "
        f"({sys.executable}). Make a virtual environment with a newer one and install Lanista there."
    )


def __getattr__(name: str) -> Any:
    """`load`, with what it needs, once it is asked for: the package itself costs nothing to import."""
    if name == "load":
        from .trainers.policies.onnx.load import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
