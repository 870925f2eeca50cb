"""`lanista demo convert`: `.demo` files from what players have shown in Godot games."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..utils.errors import CommandError

if TYPE_CHECKING:
    from mlagents_envs.base_env import BehaviorSpec

    from ...envs.godot.demonstrations import Recording
    from ...envs.named_actions import NamedAction


def add_convert_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "path", metavar="FILE", nargs="+", type=Path, help="recorded by Lanista's addon or godot_rl_agents"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FOLDER",
        type=Path,
        required=True,
        help="where BEHAVIOR.demo is written; nothing is overwritten",
    )
    parser.add_argument(
        "--behavior",
        metavar="NAME",
        default="shared_policy",
        help="of files by godot_rl_agents: the agent's policy_name; default shared_policy",
    )
    parser.add_argument(
        "--actions",
        metavar="NAME:TYPE:SIZE",
        nargs="+",
        type=_action,
        default=[],
        help="of files by godot_rl_agents: what get_action() returns; TYPE is continuous or discrete",
    )
    parser.add_argument(
        "--partial", action="store_true", help="take the whole episodes of a file that is cut off"
    )


def convert(arguments: argparse.Namespace) -> list[Path]:
    """Write the episodes of all files as demonstrations, one file per behavior; returns their paths.

    Raises:
        CommandError: A file is no recording, they do not fit together, or nothing can be written.
    """
    from ...envs.demonstrations.demonstration import SUFFIX
    from ...envs.demonstrations.recorder import DemonstrationRecorder
    from ...envs.errors import DemonstrationError
    from ...envs.godot.demonstrations import read_recording

    if arguments.output.suffix == SUFFIX:
        raise CommandError(
            f"-o {arguments.output}: expected a folder; the file in it has the behavior's name."
        )
    try:
        recordings = [
            read_recording(path, arguments.behavior, arguments.actions, arguments.partial)
            for path in arguments.path
        ]
        _check_alike(arguments.path, recordings)
        with DemonstrationRecorder(arguments.output) as recorder:
            for recording in recordings:
                for episode in recording.episodes:
                    spec = recording.specs[episode.behavior]
                    recorder.act(episode.behavior, spec, episode.decisions, episode.actions)
                    recorder.end(episode.behavior, spec, episode.terminals)
    except DemonstrationError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"The demonstrations could not be written: {error}.") from error
    for path, recording in zip(arguments.path, recordings):
        for note in recording.notes:
            print(f"{path}: {note}")
    return recorder.paths


def _check_alike(paths: Sequence[Path], recordings: Sequence[Recording]) -> None:
    """Raise CommandError if a behavior has other observations or actions in one file than in another."""
    known: dict[str, tuple[Path, BehaviorSpec]] = {}
    for path, recording in zip(paths, recordings):
        for name, spec in recording.specs.items():
            first, expected = known.setdefault(name, (path, spec))
            if spec != expected:
                raise CommandError(
                    f"The behavior {name!r} has other observations or actions in {path} than in {first}. "
                    "Convert them into folders of their own."
                )


def _action(text: str) -> NamedAction:
    from ...envs.named_actions import NamedAction

    found = re.fullmatch(r"(.+):(?:(continuous)|discrete):([1-9][0-9]{0,4})", text)
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not NAME:TYPE:SIZE, such as move:continuous:2 or jump:discrete:3"
        )
    return NamedAction(found[1], int(found[3]), "continuous" if found[2] else "discrete")
