"""`lanista tournament`: brains play against each other, everybody against everybody."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CommandError

if TYPE_CHECKING:
    from mlagents_envs.base_env import BaseEnv

    from .round_robin import RoundRobin


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", help="a run's id or folder, or a brain (.onnx) or checkpoint (.pt)"
    )
    whom = parser.add_mutually_exclusive_group()
    whom.add_argument(
        "--checkpoints",
        action="store_true",
        help="all checkpoints of the runs take part, not the newest alone",
    )
    whom.add_argument(
        "--snapshots", action="store_true", help="the snapshots of the runs' self-play take part"
    )
    parser.add_argument("--env", help="an executable, scene:NAME or pettingzoo:MODULE (as of the first run)")
    parser.add_argument("--games", metavar="N", type=_positive, default=100, help="games of each pair (100)")
    parser.add_argument(
        "--deterministic", action="store_true", help="the likeliest actions instead of drawn ones"
    )
    parser.add_argument("--results-dir", type=Path, default=Path("results"), help="where runs lie (results)")
    parser.add_argument("--seed", type=int, default=0, help="of the environment (0)")
    parser.add_argument("--json", action="store_true", help="print everything as JSON and nothing else")
    parser.add_argument("--picture", metavar="FILE.png", type=Path, help="draw ratings and scores")
    parser.add_argument("--base-port", type=int, help="port of the executable; a free one is searched for")
    parser.add_argument(
        "--timeout-wait", type=float, default=60, help="seconds the engine has to answer (60)"
    )
    parser.add_argument("--time-scale", type=float, default=20, help="speed of the engine's clock (20)")
    parser.add_argument("--no-graphics", action="store_true", help="start the executable without a window")
    parser.add_argument("--num-areas", type=_positive, default=16, help="games side by side (16)")
    parser.add_argument(
        "--env-args", nargs=argparse.REMAINDER, default=[], help="all that follows goes to the environment"
    )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a positive number")
    return number


def run(arguments: argparse.Namespace) -> int:
    """Play, rate, report."""
    from mlagents_envs.exception import UnityException

    from ...policies.onnx.runtime import BrainError
    from ...utils.logging import configure_logging
    from .match import MatchError
    from .players import entrants_of
    from .round_robin import RoundRobin

    configure_logging().setLevel(logging.WARNING if arguments.json else logging.INFO)
    kind = "checkpoints" if arguments.checkpoints else "snapshots" if arguments.snapshots else "newest"
    try:
        entrants = [
            entrant for path in arguments.runs for entrant in entrants_of(path, arguments.results_dir, kind)
        ]
        if len(entrants) < 2:
            raise CommandError(
                f"A tournament needs two players, and {entrants[0].name} is alone: name more runs, or give "
                "--checkpoints or --snapshots."
            )
        path, given = _named_environment(arguments)
        tournament = RoundRobin(entrants)
        env = _environment(arguments, path, given)
        try:
            told = (lambda *match: None) if arguments.json else _tell
            tournament.play(env, arguments.games, deterministic=arguments.deterministic, told=told)
        finally:
            env.close()
    except (MatchError, BrainError, UnityException) as error:
        raise CommandError(str(error)) from error
    _report(arguments, tournament, path)
    return 0


def _named_environment(arguments: argparse.Namespace) -> tuple[str, Sequence[str]]:
    """The environment and its arguments, as given or as the first run was trained in."""
    if arguments.env is not None:
        return arguments.env, arguments.env_args
    from ...settings.errors import TrainerConfigError
    from ...settings.options import RunOptions

    for folder in (Path(arguments.runs[0]), arguments.results_dir / arguments.runs[0]):
        configuration = folder / "configuration.yaml"
        if configuration.is_file():
            try:
                env = RunOptions.from_file(configuration).env_settings
            except TrainerConfigError as error:
                raise CommandError(f"{configuration} cannot be read: {error}") from error
            if env.env_path is not None:
                return env.env_path, [*(env.env_args or ()), *arguments.env_args]
    raise CommandError("Which environment? Give --env, such as --env scene:soccer-twos.")


def _environment(arguments: argparse.Namespace, path: str, given: Sequence[str]) -> BaseEnv:
    from ....envs.python.sources import in_process, make_source

    if path.strip().startswith("scene:"):
        from ....envs.scenes.in_process import make_in_process

        return make_in_process(path, arguments.seed, ["--areas", str(arguments.num_areas), *given])
    if in_process(path):
        # A brain that does not read the state, or its seat, does not mind: they are the last observations.
        areas = arguments.num_areas
        return make_source(path, arguments.seed, given, areas, with_state=True, self_play=None)
    from ....envs.registry.registry import resolve_registered
    from ....envs.side_channels import EngineConfigurationChannel, StatsSideChannel
    from ....envs.unity.environment import UnityEnvironment

    engine = EngineConfigurationChannel()
    engine.set_configuration_parameters(time_scale=arguments.time_scale)
    file_name, args = resolve_registered(path, given)
    return UnityEnvironment(
        file_name,
        base_port=arguments.base_port,
        seed=arguments.seed,
        no_graphics=arguments.no_graphics,
        timeout_wait=arguments.timeout_wait,
        additional_args=args,
        side_channels=[engine, StatsSideChannel()],
        num_areas=arguments.num_areas,
    )


def _tell(first: Any, second: Any, result: Any) -> None:
    print(
        f"{first.name} - {second.name}: {result.wins} won, {result.draws} drawn, {result.losses} lost",
        flush=True,
    )


def _report(arguments: argparse.Namespace, tournament: RoundRobin, path: str) -> None:
    title = f"{path}, {arguments.games} games of each pair"
    if arguments.picture is not None:
        from .plot import save

        try:
            save(tournament, title, arguments.picture)
        except (OSError, ValueError) as error:
            raise CommandError(f"{arguments.picture} could not be written: {error}.") from error
    if arguments.json:
        print(json.dumps({"environment": path, "games": arguments.games, **tournament.as_dict()}, indent=2))
        return
    _print_table(tournament, title)
    if arguments.picture is not None:
        print(f"Drawn in {arguments.picture}.")


def _print_table(tournament: RoundRobin, title: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    standings = tournament.standings()
    table = Table(title=title, title_justify="left", title_style="", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("", justify="right")
    table.add_column("player", style="bold")
    trained = any(one.elo is not None for one in standings)
    for name in ("rating", "±", "won", "drawn", "lost", "score", *(["in training"] if trained else [])):
        table.add_column(name, justify="right")
    for place, one in enumerate(standings, 1):
        score = one.result.score / max(1, one.result.games)
        cells = [f"{one.rating:.0f}", f"{one.error:.0f}", *map(str, one.result), f"{100 * score:.1f} %"]
        elo = [] if not trained else ["" if one.elo is None else f"{one.elo:.0f}"]
        table.add_row(str(place), one.name, *cells, *elo)
    Console(file=sys.stdout).print(table)
