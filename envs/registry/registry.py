"""Registries: environments by name, and `registry:NAME` as the name of a program."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from ..engines.options import REGISTRY
from ..errors import RegistryError, UnknownEntryError
from .entry import BaseRegistryEntry, RemoteRegistryEntry, read_manifest

UNITY_MANIFEST = "https://storage.googleapis.com/mlagents-test-environments/1.1.0/manifest.yaml"
"""Unity's builds of the examples of ML-Agents 1.1.0."""
VARIABLE = "LANISTA_REGISTRY"
"""The environment variable that names another default manifest."""
_MANIFEST = "?manifest="


class UnityEnvRegistry(Mapping[str, BaseRegistryEntry]):
    """Entries by name. Manifests are read when an entry is first requested."""

    def __init__(self) -> None:
        self._entries: dict[str, BaseRegistryEntry] = {}
        self._unread: list[str | BaseRegistryEntry] = []
        """Manifests and entries in the order in which they were registered."""

    def register(self, new_entry: BaseRegistryEntry) -> None:
        """Add an entry; it replaces an earlier one of the same name."""
        self._unread.append(new_entry)

    def register_from_yaml(self, path_to_yaml: str) -> None:
        """Add the entries of a manifest: a path, or an http:// or https:// address."""
        self._unread.append(os.fspath(path_to_yaml))

    def clear(self) -> None:
        """Remove all entries, and manifests that have not been read yet."""
        self._entries.clear()
        self._unread.clear()

    def __getitem__(self, identifier: str) -> BaseRegistryEntry:
        """The entry of this name.

        Raises:
            UnknownEntryError: A KeyError; there is none of this name.
            RegistryError: A manifest cannot be read.
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
    """Starts with one manifest, which is looked up when it is first needed."""

    def __init__(self) -> None:
        super().__init__()
        self._started = False

    def clear(self) -> None:
        """Remove all entries, those of the default manifest too."""
        self._started = True
        super().clear()

    def _read(self) -> None:
        if not self._started:
            self._started = True
            self._unread.insert(0, os.environ.get(VARIABLE) or UNITY_MANIFEST)
        super()._read()


default_registry: UnityEnvRegistry = _DefaultRegistry()
"""Unity's examples, or the manifest that LANISTA_REGISTRY names; read when an entry is first requested."""


def open_registry(manifest: str | None) -> UnityEnvRegistry:
    """The registry of a manifest; None for the default one."""
    if manifest is None:
        return default_registry
    registry = UnityEnvRegistry()
    registry.register_from_yaml(manifest)
    return registry


@dataclass(frozen=True)
class LocatedProgram:
    """The program of a registry's environment on this machine."""

    program: str
    arguments: tuple[str, ...]
    """The entry's arguments for the program, after all others."""


def locate(name: str) -> LocatedProgram | None:
    """Resolve `registry:NAME` or `registry:NAME?manifest=PATH_OR_URL`; None for any other name.

    The build is downloaded if necessary. Each name is resolved once per process: restarting an engine needs
    no network.

    Raises:
        RegistryError: There is no such environment, or it cannot be downloaded.
    """
    name = name.strip()
    return _locate(name) if name.startswith(REGISTRY) else None


def resolve_registered(file_name: str, arguments: Sequence[str] | None) -> tuple[str, list[str]]:
    """What to launch for an environment's name: of `registry:NAME` the program and more arguments for it.

    Args:
        file_name: The name; one without `registry:` is returned as it is.
        arguments: Arguments for the program, before those of the registry.

    Raises:
        RegistryError: As `locate`.
    """
    located, given = locate(file_name), list(arguments or ())
    return (file_name, given) if located is None else (located.program, [*given, *located.arguments])


@cache
def _locate(name: str) -> LocatedProgram:
    identifier, marked, manifest = name[len(REGISTRY) :].partition(_MANIFEST)
    if not identifier or (marked and not manifest):
        raise RegistryError(
            f"{name!r} is not an environment's name: expected registry:NAME, or "
            "registry:NAME?manifest=PATH_OR_URL. `lanista envs list` lists them."
        )
    entry = open_registry(manifest or None)[identifier]
    if not isinstance(entry, RemoteRegistryEntry):
        raise RegistryError(f"The entry {identifier} is not a program: only its own make() can make it.")
    return LocatedProgram(os.fspath(entry.fetch()), entry.additional_args)
