"""One engine: launched or awaited, spoken to, and closed. `UnityEnvironment` is loaded when asked for."""

from typing import TYPE_CHECKING

from ..._lazy import lazy_exports

if TYPE_CHECKING:
    from .environment import UnityEnvironment

__all__ = ["UnityEnvironment"]

__getattr__, __dir__ = lazy_exports(__name__, {".environment": __all__})
