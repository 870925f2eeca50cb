"""Environments that have names, and are downloaded when they are needed."""

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
