"""What was played: the report as a dictionary and as a table."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .player import Player


def make_report(player: Player, given: str, environment: str | None) -> dict[str, Any]:
    """The figures of the episodes that have ended.

    Args:
        player: after playing.
        given: the models, as they were named.
        environment: as it was named; None for the Unity Editor.
    """
    rewards = [reward for result in player.finished.values() for reward in result.rewards]
    return {
        "brain": given,
        "models": {name: str(model.source) for name, model in sorted(player.model_of.items()) if model},
        "environment": environment or "Unity Editor",
        "actions": "deterministic" if player.deterministic else "sampled",
        "episodes": len(rewards),
        "interrupted": player.interrupted,
        "mean_reward": sum(rewards) / len(rewards) if rewards else None,
        "behaviors": {name: result.as_dict() for name, result in sorted(player.finished.items())},
    }


def print_report(report: Mapping[str, Any], wanted: int) -> None:
    """Print a report as a table; `wanted`: how many episodes were to be counted."""
    from rich.console import Console

    from ...utils.logging import plain

    if report["behaviors"]:
        Console(file=sys.stdout).print(_table(report))
    for name, figures in report["behaviors"].items():
        if "mean_group_reward" in figures:
            mean, std = figures["mean_group_reward"], figures["std_group_reward"]
            groups = figures["group_episodes"]
            print(plain(f"{name}: {groups} groups, mean group reward {mean:.3f}, std {std:.3f}."))
    if report["interrupted"]:
        print(f"Stopped after {report['episodes']} of {wanted} episodes.")
    for demo in report.get("demonstrations", ()):
        print(f"Recorded in {demo}. See it with: lanista demo show {demo}")
    if "film" in report:
        print(f"Filmed in {report['film']}.")


def _table(report: Mapping[str, Any]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from ...utils.logging import plain

    title = f"{report['brain']} in {report['environment']}, {report['actions']} actions"
    table = Table(
        title=Text(plain(title)),
        title_justify="left",
        title_style="",
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    table.add_column("behavior", style="bold", overflow="fold")
    for heading in ("episodes", "mean reward", "std", "min", "max", "decisions"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, figures in report["behaviors"].items():
        keys = ["mean_reward", "std_reward", "min_reward", "max_reward", "mean_length"]
        cells = [f"{figures[key]:.3f}" for key in keys]
        table.add_row(Text(plain(name)), str(figures["episodes"]), *cells)
    return table
