"""`lanista envs`: the environments of a registry; fetch one, or remove it."""

from __future__ import annotations

import argparse
import logging
import sys
from typing import TYPE_CHECKING

from ..utils.errors import CommandError

if TYPE_CHECKING:
    from ...envs.registry import RemoteRegistryEntry, UnityEnvRegistry


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|fetch|remove")
    listed = actions.add_parser("list", help="the environments, and which of them are downloaded")
    fetch = actions.add_parser("fetch", help="download an environment")
    fetch.add_argument("id", metavar="NAME", help="one of the list")
    remove = actions.add_parser("remove", help="remove a downloaded environment")
    remove.add_argument("id", metavar="NAME", help="one of the list")
    remove.add_argument(
        "--forget",
        action="store_true",
        help="also remove its recorded checksum, which the next download is compared with",
    )
    for action in (listed, fetch, remove):
        action.add_argument(
            "--manifest",
            metavar="PATH_OR_URL",
            help="the registry's file (Unity's, or the one that the variable LANISTA_REGISTRY names)",
        )


def run(arguments: argparse.Namespace) -> int:
    """Do what the arguments say."""
    from ...envs.registry import RegistryError
    from ...envs.registry.registry import open_registry
    from ..utils.logging import configure_logging

    configure_logging().setLevel(logging.INFO)
    try:
        registry = open_registry(arguments.manifest)
        if arguments.action == "list":
            _print_table(registry)
        elif arguments.action == "fetch":
            print(_remote(registry, arguments.id).fetch())
        else:
            _remove(_remote(registry, arguments.id), remove_checksum=arguments.forget)
    except RegistryError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}.") from error
    return 0


def _remote(registry: UnityEnvRegistry, identifier: str) -> RemoteRegistryEntry:
    from ...envs.registry import RemoteRegistryEntry

    entry = registry[identifier]
    assert isinstance(entry, RemoteRegistryEntry)  # manifests list no others
    return entry


def _remove(entry: RemoteRegistryEntry, *, remove_checksum: bool) -> None:
    build = entry.build()
    with build.locked():
        removed = build.remove()
        if remove_checksum:
            build.remove_record()
    print(f"Removed {build.folder}." if removed else f"{entry.identifier} is not here.")
    if remove_checksum:
        print("Its recorded checksum was removed.")


def _print_table(registry: UnityEnvRegistry) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from ...envs.registry import NoBuildError
    from ..utils.logging import plain

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for title in ("--env", "expected reward", "here", "description"):
        table.add_column(title, overflow="fold", justify="right" if title == "expected reward" else "left")
    for identifier in sorted(registry):
        entry = _remote(registry, identifier)
        try:
            here = "yes" if entry.build().program else ""
        except NoBuildError:
            here = f"no build (only {', '.join(entry.platforms) or 'none'})"
        reward = "" if entry.expected_reward is None else f"{entry.expected_reward:g}"
        table.add_row(Text(f"registry:{identifier}"), reward, here, Text(plain(entry.description or "")))
    Console(file=sys.stdout).print(table)
