"""Environments that have names, and are downloaded when they are needed."""

from .entry import BaseRegistryEntry, RemoteRegistryEntry
from .errors import NoBuildError, RegistryError, UnknownEntryError, UnsafeArchiveError
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
