"""`registry:NAME` as an environment: its program and its arguments."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

from ..errors import RegistryError
from .entry import RemoteRegistryEntry
from .registry import registry_of

REGISTRY = "registry:"
"""How the names of a registry's environments begin."""
_MANIFEST = "?manifest="


@dataclass(frozen=True)
class Located:
    """An environment of a registry on this machine."""

    program: str
    arguments: tuple[str, ...]
    """Those that its entry gives the program, behind all others."""


def located(name: str) -> Located | None:
    """What `registry:NAME` or `registry:NAME?manifest=PATH_OR_URL` means; None for any other name.

    It is downloaded unless it is there. A process asks once for each name: engines are started again without
    the network.

    Raises:
        RegistryError: there is no such environment, or it cannot be had.
    """
    name = name.strip()
    return _located(name) if name.startswith(REGISTRY) else None


@cache
def _located(name: str) -> Located:
    identifier, marked, manifest = name[len(REGISTRY) :].partition(_MANIFEST)
    if not identifier or (marked and not manifest):
        raise RegistryError(
            f"{name!r} names no environment: expected registry:NAME, or registry:NAME?manifest=PATH_OR_URL. "
            "`lanista envs list` lists the names."
        )
    entry = registry_of(manifest or None)[identifier]
    if not isinstance(entry, RemoteRegistryEntry):
        raise RegistryError(
            f"The entry {identifier} is no program, so it can be made by its own make() alone."
        )
    return Located(os.fspath(entry.fetch()), entry.additional_args)
