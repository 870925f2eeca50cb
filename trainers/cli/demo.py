"""`lanista demo`: the contents of demonstrations, also of those that it makes of recordings."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..utils.logging import plain, print_error
from .demo_convert import add_convert_arguments, convert

if TYPE_CHECKING:
    from ...envs.demonstrations.demonstration import Demonstration


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
