"""`lanista demo`: the contents of demonstrations, also of those that it makes of recordings."""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..utils.errors import CommandError
from ..utils.logging import plain, print_error

if TYPE_CHECKING:
    from mlagents_envs.base_env import BehaviorSpec

    from ...envs.demonstrations.demonstration import Demonstration
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    show = actions.add_parser("show", help="name, steps, episodes, rewards, observations and actions")
    show.add_argument("path", metavar="FILE", nargs="+", help="a .demo file, or a folder of them")
    show.add_argument("--partial", action="store_true", help="show the whole pairs of a file that is cut off")
    show.add_argument("--json", action="store_true", help="print a list with one object per file")
    add_convert_arguments(
        actions.add_parser("convert", help="make .demo files of what players have shown in Godot games")
    )


def run(arguments: argparse.Namespace) -> int:
    """Make the demonstrations if that is asked for, and print what they contain."""
    if arguments.action == "convert":
        return _show([str(path) for path in convert(arguments)], partial=False, as_json=False)
    return _show(arguments.path, partial=arguments.partial, as_json=arguments.json)


def _show(paths: list[str], *, partial: bool, as_json: bool) -> int:
    """Read the files and print what they contain; one that cannot be read does not hide the others."""
    shown: list[dict[str, Any]] = []
    failed = False
    for facts in _facts(paths, partial):
        if "error" in facts:
            failed = True
            print_error("lanista demo", facts["error"])
        elif not as_json:
            print(("\n" if shown else "") + plain(text(facts)), flush=True)
        shown.append(facts)
    if as_json:
        print(json.dumps(shown, indent=2))
    return 1 if failed else 0


def _facts(paths: list[str], partial: bool) -> Iterator[dict[str, Any]]:
    """What is in each file, or `file` and `error` of one that cannot be read."""
    from ...envs.demonstrations.demonstration import demonstration_files, read_demonstration
    from ...envs.errors import DemonstrationError

    for path in paths:
        try:
            files = demonstration_files(path)
        except DemonstrationError as error:
            yield {"file": path, "error": str(error)}
            continue
        for file in files:
            try:
                yield describe(read_demonstration(file, partial=partial))
            except DemonstrationError as error:
                yield {"file": str(file), "error": str(error)}


def describe(demo: Demonstration) -> dict[str, Any]:
    """Plain values: what the metadata state, and what the file really contains."""
    actions = demo.spec.action_spec
    returns = demo.returns
    announced = demo.metadata
    return {
        "file": str(demo.path),
        "name": announced.name,
        "behavior": demo.behavior,
        "steps": len(demo),
        "episodes": len(returns),
        "finished_episodes": int(demo.done.sum()),
        "mean_reward": float(returns.mean()),
        "announced": {
            "steps": announced.steps,
            "episodes": announced.episodes,
            "mean_reward": announced.mean_reward if math.isfinite(announced.mean_reward) else None,
        },
        "observations": [
            {
                "name": each.name,
                "shape": list(each.shape),
                "type": each.observation_type.name,
                "dimension_properties": [int(value) for value in each.dimension_property],
            }
            for each in demo.spec.observation_specs
        ],
        "actions": {
            "continuous": actions.continuous_size,
            "discrete_branches": list(actions.discrete_branches),
        },
        "masked_actions": int(demo.action_mask.sum()),
        "note": demo.note,
    }


def text(facts: dict[str, Any]) -> str:
    """The same as text for people."""
    announced, actions = facts["announced"], facts["actions"]
    open_ended = facts["episodes"] - facts["finished_episodes"]
    episodes = f"{facts['episodes']}" + (f" ({open_ended} unfinished)" if open_ended else "")
    mean = announced["mean_reward"]
    rows = [
        ("name", facts["name"] or "(none)"),
        ("behavior", facts["behavior"]),
        ("steps", facts["steps"]),
        ("episodes", episodes),
        ("mean reward", f"{facts['mean_reward']:.3f}"),
        (
            "its metadata",
            f"{announced['steps']} steps, {announced['episodes']} episodes, mean reward "
            + ("unknown" if mean is None else f"{mean:.3f}"),
        ),
    ]
    for number, each in enumerate(facts["observations"]):
        kind = ", goal" if each["type"] == "GOAL_SIGNAL" else ""
        rows.append((f"observation {number}", f"{each['name'] or '(no name)'} {tuple(each['shape'])}{kind}"))
    branches = ", ".join(map(str, actions["discrete_branches"]))
    rows.append(("continuous actions", actions["continuous"]))
    rows.append(("discrete branches", f"of {branches} actions" if branches else "none"))
    if facts["masked_actions"]:
        rows.append(("masked actions", facts["masked_actions"]))
    if facts["note"]:
        rows.append(("note", facts["note"]))
    width = max(len(label) for label, _ in rows)
    return "\n".join([facts["file"], *(f"  {label:<{width}}  {value}" for label, value in rows)])
