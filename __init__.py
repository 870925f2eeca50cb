"""Lanista trains agents that live in game engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .trainers.brains.load import load

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def __getattr__(name: str) -> Any:
    """`load`, with what it needs, once it is asked for: the package itself costs nothing to import."""
    if name == "load":
        from .trainers.brains.load import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
