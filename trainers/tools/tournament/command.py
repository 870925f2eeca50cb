"""`lanista tournament`: brains play against each other in a round-robin."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....envs.utils.installation import install_command
from ...cli.arguments import add_engine_flags, add_results_dir, add_trust_run, count_from_1
from ...utils.errors import CommandError
from ...utils.trust import Trust

if TYPE_CHECKING:
    from mlagents_envs.base_env import BaseEnv

    from ...settings.models.environment_parameters import SamplerSettings
    from .round_robin import RoundRobin

AREAS = 16
"""Games in parallel, where the environment has areas."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", help="a run's ID or folder, or a brain (.onnx) or checkpoint (.pt)"
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--checkpoints", action="store_true", help="enter all checkpoints of the runs")
    kind.add_argument("--snapshots", action="store_true", help="enter the snapshots of the runs' self-play")
    parser.add_argument(
        "--env", help="an executable, scene:NAME, godot:PATH or pettingzoo:MODULE (that of the first run)"
    )
    parser.add_argument("--games", metavar="N", type=count_from_1, default=100, help="games per pair (100)")
    parser.add_argument(
        "--deterministic", action="store_true", help="take the most likely actions instead of sampling"
    )
    add_results_dir(parser)
    add_trust_run(parser)
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    parser.add_argument("--picture", metavar="FILE.png", type=Path, help="plot ratings and scores")
    add_engine_flags(parser, AREAS)


def run(arguments: argparse.Namespace) -> int:
    """Play, rate and report."""
    if arguments.picture is not None and find_spec("matplotlib") is None:
        raise CommandError(f"--picture needs the package matplotlib: {install_command('plot')}")
    with redirect_stdout(sys.stderr) if arguments.json else nullcontext():
        tournament, path = _played(arguments)
    _report(arguments, tournament, path)
    return 0


def _played(arguments: argparse.Namespace) -> tuple[RoundRobin, str]:
    """Play; the tournament, and the environment."""
    from mlagents_envs.exception import UnityException

    from ....envs.python.calls import close_checked
    from ...cli.opening import set_parameters
    from ...policies.onnx.load import LoadError
    from ...policies.onnx.runtime import BrainError
    from ...settings.errors import TrainerConfigError
    from ...utils.logging import configure_logging
    from .match import MatchError
    from .players import participants_of
    from .round_robin import RoundRobin

    configure_logging().setLevel(logging.WARNING if arguments.json else logging.INFO)
    kind = "checkpoints" if arguments.checkpoints else "snapshots" if arguments.snapshots else "newest"
    trust = Trust.of_command(arguments.trust_run)
    try:
        participants = [
            each
            for path in arguments.runs
            for each in participants_of(path, arguments.results_dir, kind, trust)
        ]
        if len(participants) < 2:
            raise CommandError(
                f"A tournament needs at least two participants, but {participants[0].name} is the only one: "
                "name more runs, or give --checkpoints or --snapshots."
            )
        path, given, parameters = _named_environment(arguments, trust)
        tournament = RoundRobin(participants)
        env = _environment(arguments, path, given)
        try:
            set_parameters(env, parameters)
            on_match = (lambda *match: None) if arguments.json else _print_match
            tournament.play(env, arguments.games, deterministic=arguments.deterministic, on_match=on_match)
        finally:
            close_checked(env)
    except (MatchError, BrainError, LoadError, TrainerConfigError, UnityException) as error:
        raise CommandError(str(error)) from error
    return tournament, path


def _named_environment(
    arguments: argparse.Namespace, trust: Trust
) -> tuple[str, Sequence[str], Mapping[str, SamplerSettings]]:
    """The environment, its arguments and parameters: the given ones, or those of the first run."""
    if arguments.env is not None:
        return arguments.env, arguments.env_args, {}
    from ...cli.models import environment_of

    trained_in = environment_of(arguments.runs, arguments.results_dir, trust)
    if trained_in is not None and trained_in.path is not None:
        return trained_in.path, [*trained_in.arguments, *arguments.env_args], trained_in.parameters
    raise CommandError("There is no environment: give --env, such as --env scene:soccer-twos.")


def _environment(arguments: argparse.Namespace, path: str, given: Sequence[str]) -> BaseEnv:
    from ....envs.godot import is_godot
    from ....envs.opening import open_environment
    from ...cli.opening import play_options

    options = play_options(arguments, path, given)
    if arguments.num_areas is None and not is_godot(path):  # whose games are as many as its scene has
        options = replace(options, num_areas=AREAS)
    if options.is_scene:  # in this process, where it is faster
        areas = ("--areas", str(options.num_areas))
        options = replace(
            options, drawn=True, num_areas=1, additional_args=(*areas, *options.additional_args)
        )
    return open_environment(options)


def _print_match(first: Any, second: Any, result: Any) -> None:
    print(
        f"{first.name} - {second.name}: {result.wins} won, {result.draws} drawn, {result.losses} lost",
        flush=True,
    )


def _report(arguments: argparse.Namespace, tournament: RoundRobin, path: str) -> None:
    title = f"{path}, {arguments.games} games per pair"
    if arguments.picture is not None:
        from .plot import save_plot

        try:
            save_plot(tournament, title, arguments.picture)
        except (OSError, ValueError) as error:
            raise CommandError(f"{arguments.picture} could not be written: {error}.") from error
    if arguments.json:
        print(json.dumps({"environment": path, "games": arguments.games, **tournament.as_dict()}, indent=2))
        return
    _print_table(tournament, title)
    if arguments.picture is not None:
        print(f"The plot is in {arguments.picture}.")


def _print_table(tournament: RoundRobin, title: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from ...utils.logging import plain

    leaderboard = tournament.leaderboard()
    table = Table(title=title, title_justify="left", title_style="", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("player", style="bold", overflow="fold")
    trained = any(rank.elo is not None for rank in leaderboard)
    for name in ("rating", "±", "won", "drawn", "lost", "score", *(["in training"] if trained else [])):
        table.add_column(name, justify="right", no_wrap=True)
    for place, rank in enumerate(leaderboard, 1):
        score = rank.result.score / max(1, rank.result.games)
        cells = [f"{rank.rating:.0f}", f"{rank.error:.0f}", *map(str, rank.result), f"{100 * score:.1f} %"]
        elo = [] if not trained else ["" if rank.elo is None else f"{rank.elo:.0f}"]
        table.add_row(str(place), Text(plain(rank.name)), *cells, *elo)
    Console(file=sys.stdout).print(table)
