"""`lanista upgrade`: converts an old configuration of ML-Agents to the current form."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

from ...settings.errors import TrainerConfigError
from ...settings.options import RunOptions
from ...settings.yaml_source import read_file, read_text
from ...utils.atomic_files import atomic_write_text
from ...utils.errors import CommandError
from ...utils.logging import plain
from .upgrade import UpgradeError, is_present, upgrade


class _Plain(yaml.SafeDumper):
    """Repeats what several behaviors share from `default`, so that editing one does not change the others."""

    def ignore_aliases(self, data: object) -> bool:
        """No anchors."""
        return True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("old", metavar="OLD", help="a trainer configuration of ML-Agents 0.18 or earlier")
    parser.add_argument("new", metavar="NEW.yaml", type=Path, help="the file to write")
    parser.add_argument("--curriculum", metavar="FILE", help="curriculum of ML-Agents 0.16 or earlier")
    parser.add_argument("--sampler", metavar="FILE", help="samplers of ML-Agents 0.16 or earlier")
    parser.add_argument("--force", action="store_true", help="overwrite NEW.yaml")


def run(arguments: argparse.Namespace) -> int:
    """Convert, check, write."""
    try:
        old, curriculum, samplers = (
            _read(file) for file in (arguments.old, arguments.curriculum, arguments.sampler)
        )
        assert old is not None
        if is_present(old) and curriculum is None and samplers is None:
            text, notes = Path(arguments.old).read_text(encoding="utf-8"), []
            notes.append("it has today's form already: NEW is a copy.")
        else:
            upgraded = upgrade(old, curriculum, samplers)
            text, notes = yaml.dump(upgraded.data, Dumper=_Plain, sort_keys=False), upgraded.notes
        RunOptions.from_source(read_text(text, str(arguments.new)))
    except UpgradeError as error:
        raise CommandError(f"{arguments.old} was not upgraded: {error}.") from error
    except TrainerConfigError as error:
        raise CommandError(f"{arguments.old} was not upgraded. {error}") from error
    if arguments.new.exists() and not arguments.force:
        raise CommandError(f"{arguments.new} exists: give another name, or --force to write over it.")
    try:
        atomic_write_text(arguments.new, text)
    except OSError as error:
        raise CommandError(f"{arguments.new} could not be written: {error.strerror or error}.") from error
    for note in notes:
        print(plain(f"{arguments.old}: {note}"), file=sys.stderr)
    print(f"Wrote {arguments.new}. `lanista check --explain {arguments.new}` says what it means here.")
    return 0


def _read(file: str | None) -> dict[str, Any] | None:
    return None if file is None else read_file(file).data
