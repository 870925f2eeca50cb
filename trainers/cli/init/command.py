"""`lanista init`: starts an environment once, and writes a configuration for the behaviors that it shows."""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ....envs.python import in_process
from ...utils.atomic_files import atomic_write_text
from ...utils.errors import CommandError
from ...utils.text import typed
from ..arguments import ENVIRONMENTS, add_engine_flags, engine_words
from .suggest import ON_POLICY, TRAINERS, Suggestion, UnsuitableTrainerError, suggest

if TYPE_CHECKING:
    from mlagents_envs.base_env import BaseEnv

    from ....envs.engines.engine_errors import EngineErrors
    from .observe import BehaviorFacts

logger = logging.getLogger(__name__)

STDOUT = "-"
_EXISTS = "{} exists. Name another file with -o, or overwrite it with --force."
COPIES = 16
"""Copies of an environment in Python that is trained on-policy, unless others were asked for, or what agents
observe takes too much memory."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.epilog = (
        "The environment is played at random for some seconds and closed. What is written is where to begin: "
        "the settings suit the actions, groups, teams, number of agents and sensors that were seen."
    )
    parser.add_argument(
        "--env",
        help=f"{ENVIRONMENTS}; without it, press Play in the Unity Editor",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default="config.yaml",
        help=f"the file to write, {STDOUT} for standard output (config.yaml)",
    )
    parser.add_argument("--force", action="store_true", help="overwrite the file")
    parser.add_argument(
        "--from-zoo",
        metavar="FILE",
        help="take the settings of a Gymnasium environment from a file of rl-zoo3, such as ppo.yml",
    )
    parser.add_argument(
        "--trainer", choices=TRAINERS, help="the algorithm (default: by actions, agents and groups)"
    )
    add_engine_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Observe, and write."""
    from ...settings.options import RunOptions
    from .text import configuration

    file = Path(arguments.output)
    if arguments.output != STDOUT:
        _require_writable(file, force=arguments.force)
    if arguments.from_zoo is not None:
        return _run_from_zoo(arguments, file)
    facts = _observed(arguments)
    copies = 1
    suggestions = _suggested(arguments, facts, copies)
    if _is_multiplied(arguments, suggestions):
        copies = min(one.bounds.copies(max(one.facts.agents, 1), COPIES) for one in suggestions)
        suggestions = _suggested(arguments, facts, copies)
    command = _training_command(arguments, copies)
    header = [
        "Where to begin, for what the environment showed; written by `lanista init`. Train with",
        f"    {command}",
    ]
    text = configuration(
        suggestions, [*header, "All keys: docs/configuration.md. Without a key its default holds."]
    )
    RunOptions.from_text(text, "what lanista init would write")
    if _written(arguments, file, text):
        for one in suggestions:
            print(f"{one.facts.name}: {one.settings['trainer_type']}, {one.reason}.")
        print(f"Wrote {file}. Train with:\n  {command}")
    return 0


def _run_from_zoo(arguments: argparse.Namespace, file: Path) -> int:
    """Translate, and write."""
    from ...settings.errors import TrainerConfigError
    from ...settings.options import RunOptions
    from .zoo_file import translated, zoo_configuration

    if arguments.trainer is not None:
        raise CommandError("--from-zoo has its algorithm from the file's name; leave out --trainer.")
    name, translation = translated(Path(arguments.from_zoo), arguments.env, arguments.env_args or ())
    command = _training_command(arguments, translation.copies)
    header = ["Settings of rl-zoo3, translated by `lanista init --from-zoo`. Train with", f"    {command}"]
    text = zoo_configuration(name, translation, header)
    try:
        RunOptions.from_text(text, "what lanista init would write")
    except TrainerConfigError as error:
        raise CommandError(str(error)) from error
    if _written(arguments, file, text):
        for key, reason in translation.left.items():
            print(f"{key}: not said; {reason}.")
        print(f"Wrote {file}. Train with:\n  {command}")
    return 0


def _written(arguments: argparse.Namespace, file: Path, text: str) -> bool:
    """Write the text; whether to a file."""
    if arguments.output == STDOUT:
        print(text, end="")
        return False
    try:
        atomic_write_text(file, text, replace=arguments.force)
    except FileExistsError as error:  # made since, while the environment was looked at
        raise CommandError(_EXISTS.format(file)) from error
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error.strerror}.") from error
    return True


def _require_writable(file: Path, *, force: bool) -> None:
    """Refuse what could not be written, before an environment is started for it."""
    if file.is_dir():
        raise CommandError(f"{file} is a folder. Name a file with -o.")
    if not file.parent.is_dir():
        raise CommandError(f"There is no folder {file.parent}. Name another file with -o.")
    if file.exists() and not force:
        raise CommandError(_EXISTS.format(file))


def _observed(arguments: argparse.Namespace) -> dict[str, BehaviorFacts]:
    """What the environment showed, once it is closed again."""
    from mlagents_envs.exception import UnityException

    from ....envs.engines.engine_errors import EngineErrors, summary
    from ....envs.engines.terms import advice
    from ....envs.python.calls import close_checked
    from ...settings.errors import TrainerConfigError
    from ...utils.logging import configure_logging
    from .observe import observe

    configure_logging()
    logs, errors = Path(tempfile.mkdtemp(prefix="lanista-init-")), EngineErrors()
    try:
        with redirect_stdout(sys.stderr):
            env = _opened(arguments, logs, errors)
            try:
                facts = observe(env)
                advised = advice([env])
            finally:
                close_checked(env)
            if errors.total:
                logger.warning("%s", summary(errors))
        if facts and not errors.total:  # no message has named a log in it
            shutil.rmtree(logs, ignore_errors=True)
    except (UnityException, TrainerConfigError, ValueError) as error:
        raise CommandError(str(error)) from error
    finally:
        with suppress(OSError):  # the message of a failure may name a log in it
            logs.rmdir()
    silent = [name for name, one in facts.items() if not one.agents]
    if not facts:
        raise CommandError(f"The environment showed no behavior: no agent was there to be trained. {advised}")
    if silent:
        print(
            f"No agent of {', '.join(silent)} asked for a decision; its settings are a guess.",
            file=sys.stderr,
        )
    return facts


def _opened(arguments: argparse.Namespace, logs: Path, errors: EngineErrors) -> BaseEnv:
    """The environment as a run would start it; all seats of a game of turns are teams of one behavior."""
    from ....envs.opening import open_environment
    from ...runner.environments import check_environment
    from ..opening import settings_from_flags, single_engine_options

    settings = settings_from_flags(arguments, arguments.env, arguments.env_args)
    check_environment(settings)
    options = single_engine_options(settings, arguments)
    return open_environment(replace(options, log_folder=logs, self_play=None, errors=errors))


def _suggested(
    arguments: argparse.Namespace, facts: dict[str, BehaviorFacts], copies: int
) -> list[Suggestion]:
    teams = {team for one in facts.values() for team in one.teams}
    # Seats of a game of turns that are behaviors of their own cannot play against each other's snapshots.
    apart = arguments.env is not None and in_process(arguments.env)
    try:
        return [
            suggest(
                one,
                copies=copies,
                trainer=arguments.trainer,
                opponents=len(one.teams if apart else teams) > 1,
                behaviors=len(facts),
            )
            for one in facts.values()
        ]
    except UnsuitableTrainerError as error:
        raise CommandError(f"{error}.") from error


def _is_multiplied(arguments: argparse.Namespace, suggestions: Sequence[Suggestion]) -> bool:
    """Whether copies of the environment should be trained in: it is in Python, and on-policy alone."""
    given = " ".join([arguments.env or "", *(arguments.env_args or ())])
    return (
        in_process(arguments.env)
        and arguments.num_areas is None
        and "areas" not in given
        and all(one.settings["trainer_type"] in ON_POLICY for one in suggestions)
    )


def _training_command(arguments: argparse.Namespace, copies: int) -> str:
    file = "config.yaml" if arguments.output == STDOUT else arguments.output
    words = ["lanista-learn", file]
    if arguments.env is not None:
        words += ["--env", arguments.env]
    areas = arguments.num_areas or copies
    words += ["--run-id", "first"]
    if areas > 1:
        words += ["--num-areas", str(areas)]
    words += engine_words(arguments, without=("num_areas", "seed"))
    if arguments.env_args:
        words += ["--env-args", *arguments.env_args]
    return typed(words)
