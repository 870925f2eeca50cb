"""Named environments that are downloaded when they are first needed. Imports are lazy."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..errors import NoBuildError, RegistryError, UnknownEntryError, UnsafeArchiveError
    from .entry import BaseRegistryEntry, RemoteRegistryEntry
    from .registry import UnityEnvRegistry, default_registry

__all__ = [
    "BaseRegistryEntry",
    "NoBuildError",
    "RegistryError",
    "RemoteRegistryEntry",
    "UnityEnvRegistry",
    "UnknownEntryError",
    "UnsafeArchiveError",
    "default_registry",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .. import errors
    from . import entry, registry

    return next(getattr(module, name) for module in (errors, entry, registry) if hasattr(module, name))
