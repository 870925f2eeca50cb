"""Named environments that are downloaded when they are first needed. Imports are lazy."""

from typing import TYPE_CHECKING

from ..._lazy import lazy_exports

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

_MODULES = {
    "..errors": ("NoBuildError", "RegistryError", "UnknownEntryError", "UnsafeArchiveError"),
    ".entry": ("BaseRegistryEntry", "RemoteRegistryEntry"),
    ".registry": ("UnityEnvRegistry", "default_registry"),
}

__getattr__, __dir__ = lazy_exports(__name__, _MODULES)
