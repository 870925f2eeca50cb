"""Registries: environments by their names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from ..errors import UnknownEntryError
from .entry import BaseRegistryEntry
from .manifest import read_manifest

UNITY_MANIFEST = "https://storage.googleapis.com/mlagents-test-environments/1.1.0/manifest.yaml"
"""Unity's builds of the examples of ML-Agents 1.1.0."""
VARIABLE = "LANISTA_REGISTRY"
"""Names another manifest in its place."""


class UnityEnvRegistry(Mapping[str, BaseRegistryEntry]):
    """Entries by their names. Manifests are read when an entry is first asked for."""

    def __init__(self) -> None:
        self._entries: dict[str, BaseRegistryEntry] = {}
        self._unread: list[str | BaseRegistryEntry] = []
        """Manifests and entries in the order in which they came."""

    def register(self, new_entry: BaseRegistryEntry) -> None:
        """Add an entry; of two with one name the last counts."""
        self._unread.append(new_entry)

    def register_from_yaml(self, path_to_yaml: str) -> None:
        """Add the entries of a manifest: a path, or an address that begins with http."""
        self._unread.append(os.fspath(path_to_yaml))

    def clear(self) -> None:
        """Remove all entries, and forget manifests that were not read yet."""
        self._entries.clear()
        self._unread.clear()

    def __getitem__(self, identifier: str) -> BaseRegistryEntry:
        """The entry of this name.

        Raises:
            UnknownEntryError: a KeyError; there is none.
            RegistryError: a manifest cannot be read.
        """
        self._read()
        if identifier not in self._entries:
            raise UnknownEntryError(identifier, self._entries)
        return self._entries[identifier]

    def __iter__(self) -> Iterator[str]:
        self._read()
        return iter(self._entries)

    def __len__(self) -> int:
        self._read()
        return len(self._entries)

    def _read(self) -> None:
        while self._unread:
            first = self._unread[0]
            for entry in read_manifest(first) if isinstance(first, str) else [first]:
                self._entries[entry.identifier] = entry
            del self._unread[0]


class _DefaultRegistry(UnityEnvRegistry):
    """Begins with one manifest, which is named when it is first needed."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = False

    def clear(self) -> None:
        """As the base class does; the default manifest too."""
        self._begun = True
        super().clear()

    def _read(self) -> None:
        if not self._begun:
            self._begun = True
            self._unread.insert(0, os.environ.get(VARIABLE) or UNITY_MANIFEST)
        super()._read()


default_registry: UnityEnvRegistry = _DefaultRegistry()
"""Unity's examples, or what the variable LANISTA_REGISTRY names; nothing is read before it is asked."""


def registry_of(manifest: str | None) -> UnityEnvRegistry:
    """The registry of a manifest; None for the default one."""
    if manifest is None:
        return default_registry
    registry = UnityEnvRegistry()
    registry.register_from_yaml(manifest)
    return registry
