"""`lanista card`: lets models play, and writes their model card."""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....envs.engines.own_program import own_program
from ....envs.engines.reaper import REAPER
from ....envs.utils.regular_files import read_text
from ...cli.arguments import (
    add_engine_flags,
    add_results_dir,
    add_trust_run,
    count_from_0,
    engine_words,
)
from ...cli.runs.record import CARD, is_run, read_run
from ...utils.atomic_files import atomic_write_text
from ...utils.errors import CommandError
from ...utils.guard import INTERRUPTED
from ...utils.text import harmless
from ...utils.trust import Trust
from ...utils.trusted_names import Named
from .contents import Card, ModelFile, Score, Training
from .markdown import MARK, make_markdown

if TYPE_CHECKING:
    from ...cli.models import Model

_PLAY = own_program("lanista.trainers.cli.main", "play")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "models",
        metavar="MODEL",
        nargs="+",
        help="a run's ID or folder, or files, as lanista play takes them",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help=f"the card ({CARD} in the folder of the run, or next to a file with its name and .md)",
    )
    parser.add_argument("--name", help="the title (the run's ID, or the file's name)")
    parser.add_argument("--env", help="where to play (of a run: where it was trained)")
    parser.add_argument(
        "--episodes",
        type=count_from_0,
        default=100,
        metavar="N",
        help="episodes of the score (100; 0: none is played)",
    )
    parser.add_argument(
        "--sampled", action="store_true", help="play with actions sampled as in training, not the likeliest"
    )
    add_results_dir(parser)
    add_trust_run(parser)
    add_engine_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Play, and write the card."""
    from ...cli.models import find_models
    from ...policies.onnx.load import LoadError

    try:
        trust = Trust.of_command(arguments.trust_run)
        models = find_models(arguments.models, arguments.results_dir, trust=trust)
    except LoadError as error:
        raise CommandError(str(error)) from error
    trainings = _trainings(models, arguments.results_dir, trust)
    output = arguments.output or _beside(models[0], trainings)
    _keep_others(output)
    card = make_card(arguments, models, trainings, trust)
    try:
        atomic_write_text(output, make_markdown(card))
    except OSError as error:
        raise CommandError(
            f"{output} cannot be written: {error.strerror}. Give another place with -o."
        ) from error
    rows = card.score.rows() if card.score else []
    scored = "".join(f", {row.behavior}: {row.mean:.4g} ± {row.std:.2g}" for row in rows)
    print(harmless(f"Wrote {output}{scored}."))
    return 0


def make_card(
    arguments: argparse.Namespace, models: list[Model], trainings: list[Training], trust: Trust
) -> Card:
    """The card of models, which play first if they can."""
    files = [
        ModelFile.read(path, model.behavior, model.policy)
        for model in models
        for path in model.slots or [model.source]
    ]
    own = next((one.environment for one in trainings if one.environment), [])
    environment = [arguments.env] if arguments.env else own
    environment = [*environment, *arguments.env_args] if environment else []
    name = arguments.name or (trainings[0].record.name if trainings else models[0].source.stem)
    unknown, score = [], None
    if not trainings:
        unknown.append(
            "What made it: the trainer, its settings and seed, the steps. No run's folder is around it."
        )
    if not arguments.episodes:
        unknown.append("How well it plays: no episode was played (--episodes 0).")
    elif not environment:
        unknown.append("How well it plays: the environment is not known. lanista card --env plays it.")
    else:
        score = _play(arguments, environment, trainings, trust)
    return Card(name, files, trainings, environment, score, unknown)


def _trainings(models: list[Model], results: Path, trust: Trust) -> list[Training]:
    """The runs in whose folders the models are, each once."""
    found: dict[Path, Training] = {}
    for model in models:
        folders = (model.source.parent, model.source.parent.parent)
        folder = next((path for path in folders if is_run(path)), None)
        if folder is not None and folder not in found:
            found[folder] = Training(read_run(folder, _name(folder, results)), trust)
    return list(found.values())


def _name(folder: Path, results: Path) -> str:
    try:
        return folder.relative_to(results).as_posix()
    except ValueError:
        return folder.resolve().name


def _beside(model: Model, trainings: list[Training]) -> Path:
    return trainings[0].record.path / CARD if trainings and model.of_run else model.source.with_suffix(".md")


def _keep_others(output: Path) -> None:
    """Refuse to write over a file that was not made by this command.

    Raises:
        CommandError: it is such a file.
    """
    try:
        own = MARK in read_text(output)
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError):
        own = False
    if not own:
        raise CommandError(
            f"{output} is there already, and lanista card did not make it. Give another place with -o, or "
            "remove it."
        )


def _play(
    arguments: argparse.Namespace, environment: list[str], trainings: list[Training], trust: Trust
) -> Score:
    """Play in a process of its own, as anyone could; the user has been asked whether to trust it here.

    Raises:
        CommandError: that failed; it has said why. Or a file's environment is not trusted.
        KeyboardInterrupt: it was stopped.
    """
    from ...cli.models import environment_of, require_trusted

    words = [*_PLAY, *arguments.models, "--json", "--episodes", str(arguments.episodes)]
    words += [*engine_words(arguments), "--results-dir", str(arguments.results_dir)]
    words += ["--trust-run", *(["--sampled"] if arguments.sampled else [])]
    of_run = None if arguments.env else environment_of(arguments.models, arguments.results_dir, trust)
    if of_run is None or of_run.path is None:
        around = None if arguments.env else next((one for one in trainings if one.environment), None)
        if around is not None:
            named = Named(tuple(around.environment))
            require_trusted(trust, named, around.record.path / "configuration.yaml")
        words += ["--env", environment[0]]
        given = environment[1:]
    else:  # with its parameters
        given = arguments.env_args
    words += ["--env-args", *given] if given else []
    process = REAPER.start(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        printed, _ = process.communicate()
    finally:
        process.kill()
        process.wait()
        REAPER.remove(process.pid)
    if process.returncode == INTERRUPTED:
        raise KeyboardInterrupt
    if process.returncode:
        raise CommandError("lanista play failed (above). --episodes 0 writes the card without a score.")
    report: dict[str, Any] = json.loads(printed)
    return Score(report, arguments.seed)
