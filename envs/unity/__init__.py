"""One engine: launched or awaited, spoken to, and closed. `UnityEnvironment` is loaded when asked for."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .environment import UnityEnvironment

__all__ = ["UnityEnvironment"]


def __getattr__(name: str) -> Any:
    if name == "UnityEnvironment":
        from .environment import UnityEnvironment

        return UnityEnvironment
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
