"""`lanista play`: let models act in an environment, report their rewards, and film them."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...._tools import is_provided, provided
from ....envs.engines.address import split_address
from ...episodes import MAX_DECISIONS
from ...utils.errors import CommandError
from ...utils.guard import INTERRUPTED
from ...utils.logging import print_error
from ...utils.trust import Trust
from ..arguments import ENVIRONMENTS, add_engine_flags, add_results_dir, add_trust_run, count_from_1
from ..page_server import port_number

if TYPE_CHECKING:
    from ....envs.demonstrations.recorder import DemonstrationRecorder
    from ..models import Model
    from .film import Viewer
    from .player import Player


def environment_name(env_path: str | None, listen: str | None) -> str:
    """The environment in a report: as it was named, or where it calls."""
    if env_path is not None:
        return env_path
    port = split_address(listen or "localhost")[1]
    return "Unity Editor" if port is None else f"the engine that calls at {listen}"


def make_report(player: Player, given: str, environment: str) -> dict[str, Any]:
    """The figures of the episodes that have ended.

    Args:
        player: the player, after playing.
        given: the models, as they were named.
        environment: its name.
    """
    from .player import figures

    seats = player.finished
    rewards = [reward for seat in seats.values() for reward in seat.rewards]
    return {
        "brain": given,
        "models": {name: str(model.source) for name, model in sorted(player.model_of.items()) if model},
        "environment": environment,
        "actions": "deterministic" if player.deterministic else "sampled",
        "episodes": len(rewards),
        "interrupted": player.interrupted,
        "mean_reward": sum(rewards) / len(rewards) if len(seats) == 1 else None,
        "behaviors": {name: figures(seat) for name, seat in seats.items()},
    }


def print_report(report: Mapping[str, Any], wanted: int) -> None:
    """Print a report as a table; `wanted`: how many episodes of each behavior were to be counted."""
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
        counts = {
            name: one.get("group_episodes", one["episodes"]) for name, one in report["behaviors"].items()
        }
        each = " and ".join(f"{count} ({plain(name)})" for name, count in counts.items())
        found = each if len(counts) > 1 else sum(counts.values())
        print(f"Stopped after {found} of {wanted} episodes.")
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


_NOTHING = (
    "nothing is to play: give the ID or folder of a run, models, or --pretrained NAME (alone, it lists the "
    "models that come with Lanista)."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "models",
        metavar="MODEL",
        nargs="*",
        help="a run's ID or folder, whose behaviors all act, or files: a brain (.onnx; Lanista's, ML-Agents' "
        "or Unity's own) or a checkpoint (.pt) per behavior",
    )
    _add_pretrained(parser)
    parser.add_argument(
        "--env",
        help=f"{ENVIRONMENTS} (without it: of a run the one that it was trained in, else the Unity Editor)",
    )
    parser.add_argument(
        "--episodes",
        type=count_from_1,
        default=100,
        help="episodes to count of each behavior and team, of groups where agents are in groups (100)",
    )
    parser.add_argument(
        "--max-decisions",
        metavar="N",
        type=count_from_1,
        default=MAX_DECISIONS,
        help=f"decisions after which an episode that does not end is cut and counted ({MAX_DECISIONS})",
    )
    style = parser.add_mutually_exclusive_group()
    style.add_argument(
        "--deterministic",
        action="store_true",
        help="the most likely actions (default if the models have them)",
    )
    style.add_argument("--sampled", action="store_true", help="actions sampled as in training")
    add_results_dir(parser)
    add_trust_run(parser)
    parser.add_argument("--json", action="store_true", help="print the report as JSON and nothing else")
    parser.add_argument(
        "--record-demos",
        metavar="FOLDER",
        type=Path,
        help="write the counted episodes as demonstrations, a .demo file per behavior",
    )
    _add_pictures(parser)
    add_engine_flags(parser)


def _add_pretrained(parser: argparse.ArgumentParser) -> None:
    if not is_provided("pretrained"):
        parser.set_defaults(pretrained=None)
        return
    parser.add_argument(
        "--pretrained",
        metavar="NAME",
        nargs="?",
        const="",
        help="in place of models of yours: those that come with Lanista (without NAME: a list)",
    )


def _add_pictures(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--render", metavar="FILE", type=Path, help="film what is played (.gif, .mp4, .webm)")
    parser.add_argument(
        "--render-steps", metavar="N", type=count_from_1, default=150, help="steps that are filmed (150)"
    )
    parser.add_argument(
        "--watch", action="store_true", help="show what is played in a browser of this machine, live"
    )
    parser.add_argument(
        "--port",
        type=port_number,
        default=0,
        help="where --watch listens on 127.0.0.1 (any port that is free)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Play and report."""
    if arguments.pretrained == "" and not arguments.models:
        provided("pretrained").list_pretrained()
        return 0
    if arguments.pretrained is None and not arguments.models:
        print_error("lanista play", _NOTHING)
        return 2
    arguments.title = _choose_models(arguments)
    with redirect_stdout(sys.stderr) if arguments.json else nullcontext():
        report = _played(arguments)
    if arguments.json:
        print(json.dumps(report, indent=2))
    else:
        print_report(report, arguments.episodes)
    return INTERRUPTED if report["interrupted"] else 0


def _played(arguments: argparse.Namespace) -> dict[str, Any]:
    """Play, and return the report."""
    from mlagents_envs.exception import UnityException

    from ....envs.python.calls import close_checked
    from ...policies.onnx.load import LoadError
    from ...policies.onnx.runtime import BrainError
    from ...settings.errors import TrainerConfigError
    from ...utils.films import FilmError
    from ...utils.logging import configure_logging
    from ..models import find_models
    from ..opening import set_parameters
    from .environment import open_played
    from .film import Film, StepRenderer, Window
    from .player import NoModelError, NothingToDecideError, Player
    from .progress import Progress, terminal
    from .sampling import hints

    console = terminal()
    configure_logging(console=console).setLevel(logging.WARNING if arguments.json else logging.INFO)
    try:
        film = None if arguments.render is None else Film(arguments.render, arguments.render_steps)
        trust = Trust.of_command(arguments.trust_run)
        models = find_models(arguments.models, arguments.results_dir, arguments.seed, trust)
        deterministic = _deterministic(arguments, models)
        _choose_environment(arguments, trust)
        with ExitStack() as opened:
            env = open_played(arguments, shown=film is not None or arguments.watch)
            opened.callback(close_checked, env)
            set_parameters(env, arguments.parameters)
            recorder = _recorder(arguments)
            if recorder is not None:
                opened.enter_context(recorder)
            player = Player(env, models, arguments.episodes, deterministic, arguments.max_decisions, recorder)
            progress = Progress(player, console)
            viewers: list[Viewer] = [] if film is None else [film]
            if arguments.watch:
                title = f"{arguments.title} in {arguments.env}"
                viewers.append(opened.enter_context(Window(title, progress.text, arguments.port)))
            renderer = StepRenderer(env, arguments.env, viewers)
            opened.enter_context(progress)
            player.play(progress.step, renderer.step)
    except (
        FilmError,
        LoadError,
        BrainError,
        NoModelError,
        NothingToDecideError,
        TrainerConfigError,
        UnityException,
    ) as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        if arguments.record_demos is None:
            raise
        raise CommandError(f"The demonstrations could not be written: {error}.") from error
    for line in hints(player):
        logging.getLogger(__name__).warning("%s", line)
    report = make_report(player, arguments.title, environment_name(arguments.env, arguments.listen))
    if recorder is not None:
        report["demonstrations"] = [str(path) for path in recorder.paths]
    if film is not None and film.save():
        report["film"] = str(film.path)
    return report


def _choose_models(arguments: argparse.Namespace) -> str:
    """Replace --pretrained by its models, its environment and its kind of actions; return what is played."""
    if arguments.pretrained is None:
        return ", ".join(arguments.models)
    if arguments.models:
        raise CommandError(
            f"found {', '.join(arguments.models)} and --pretrained: give models of yours, or none of them."
        )
    pretrained = provided("pretrained").find_pretrained(arguments.pretrained)
    arguments.models = [str(path) for path in pretrained.models]
    if arguments.env is None:
        arguments.env, *own = pretrained.environment
        arguments.env_args = [*own, *arguments.env_args]
    arguments.sampled |= pretrained.sampled and not arguments.deterministic
    return f"{pretrained.name} (pretrained)"


def _recorder(arguments: argparse.Namespace) -> DemonstrationRecorder | None:
    if arguments.record_demos is None:
        return None
    from ....envs.demonstrations.recorder import DemonstrationRecorder

    return DemonstrationRecorder(arguments.record_demos)


def _deterministic(arguments: argparse.Namespace, models: Sequence[Model]) -> bool:
    without = next((model.source for model in models if not model.policy.has_deterministic), None)
    if arguments.deterministic and without is not None:
        raise CommandError(
            f"{without} has no deterministic outputs (old exporters wrote none): use --sampled."
        )
    return without is None and not arguments.sampled


def _choose_environment(arguments: argparse.Namespace, trust: Trust) -> None:
    """Take the environment of the run that is given, as it was trained in it, unless --env names one."""
    arguments.parameters, arguments.with_state, arguments.self_play = {}, True, None
    if arguments.env is not None:
        return
    from ..models import environment_of

    logger = logging.getLogger(__name__)
    trained_in = environment_of(arguments.models, arguments.results_dir, trust)
    if trained_in is not None:
        arguments.env, arguments.parameters = trained_in.path, trained_in.parameters
        arguments.with_state, arguments.self_play = trained_in.with_state, trained_in.self_play
        arguments.env_args = [*trained_in.arguments, *arguments.env_args]
        for line in trained_in.lines:
            logger.info(line)
