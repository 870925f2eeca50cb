"""`lanista clone`: learns from demonstrations alone, without an engine."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...utils.errors import CommandError

if TYPE_CHECKING:
    from ....envs.demonstrations.demonstration import Demonstration
    from ...buffers.demonstrations import Demonstrations, SavedSteps
    from ...settings.options import RunOptions
    from ...settings.yaml_source import Source

REPLAY = ".replay"
"""The end of the names of saved replays."""
RUN_ID = "clone"
"""The ID of a run that is given no other."""
DEFAULTS: dict[str, Any] = {
    "trainer_type": "ppo",
    "hyperparameters": {"batch_size": 128, "learning_rate": 1e-3},
    "network_settings": {"normalize": True},
}
"""The settings of the behavior where no file gives any."""
FLAGS = {
    "run_id": "checkpoint_settings",
    "results_dir": "checkpoint_settings",
    "resume": "checkpoint_settings",
    "force": "checkpoint_settings",
    "initialize_from": "checkpoint_settings",
    "seed": "env_settings",
    "device": "torch_settings",
}
"""The sections of the configuration that the flags set."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add, omitted = parser.add_argument, argparse.SUPPRESS
    add(
        "demos", metavar="DEMO", nargs="+", help="a .demo file, a folder of them, or a saved replay (.replay)"
    )
    add(
        "--config",
        metavar="YAML",
        action="append",
        help="the behavior's settings, as for lanista-learn; of several, each overrides those before it",
    )
    add("--preset", metavar="NAME", help="a configuration that comes with Lanista, such as ppo/ball3d")
    add("--partial", action="store_true", help="learn from the whole pairs of a .demo file that is cut off")
    add("--behavior", metavar="NAME", help="the behavior's name (default: that in the demonstrations)")
    add("--method", metavar="NAME", help="bc, or iql: by the rewards that followed (bc)", default=omitted)
    add("--gradient-steps", metavar="N", help="how long to learn (default: 5000)", default=omitted)
    add("--held-out", metavar="SHARE", help="episodes to measure by (default: 0.1)", default=omitted)
    add("--run-id", metavar="ID", help=f"name of the run's folder (default: {RUN_ID})", default=omitted)
    add("--results-dir", metavar="FOLDER", help="folder that has the runs' folders", default=omitted)
    add("--resume", action="store_true", help="go on with the run of this id", default=omitted)
    add("--force", action="store_true", help="set an older run of this id aside", default=omitted)
    add("--initialize-from", metavar="RUN", help="start with another run's weights", default=omitted)
    add("--seed", metavar="N", help="of weights, order and held-out episodes", default=omitted)
    add("--torch-device", metavar="DEVICE", dest="device", help="cpu, cuda, mps", default=omitted)
    add("--set", metavar="PATH=VALUE", action="append", default=[], help="set any key of the configuration")


def run(arguments: argparse.Namespace) -> int:
    """Read everything, refuse what cannot be learned, and learn."""
    from ...learn import EXPECTED

    try:
        demos = _read(arguments.demos, arguments.partial)
        name = arguments.behavior or _behavior(demos)
        options, joined = _options(arguments, name), _joined(demos, arguments.demos)
        _require_rewards(options, name, joined)
        _clone(options, name, joined)
    except EXPECTED as error:
        raise CommandError(str(error)) from error
    return 0


def _read(paths: Sequence[str], partial: bool) -> list[Demonstration | SavedSteps]:
    from ....envs.demonstrations.demonstration import demonstration_files, read_demonstration

    given = [[Path(path)] if path.endswith(REPLAY) else demonstration_files(path) for path in paths]
    files = {file.resolve(): file for listed in given for file in listed}
    return [
        _read_replay(file)
        if file.suffix == REPLAY
        else read_demonstration(file, images="uint8", partial=partial)
        for file in files.values()
    ]


def _read_replay(path: Path) -> SavedSteps:
    """A saved replay, whose behavior the checkpoint beside it describes.

    Raises:
        CommandError: one of them cannot be used.
    """
    from ...utils.requirements import limit_openmp_spinning, load_torch

    limit_openmp_spinning()
    load_torch()
    from ...buffers.demonstrations import SavedSteps
    from ...buffers.replay.storage import ReplayFileError
    from ...checkpoints.file import CheckpointError, load_checkpoint
    from ...checkpoints.metadata import KEY, build_spec
    from ...checkpoints.transfer import LATEST
    from .episodes import replay_episodes

    beside = path.with_name(LATEST)
    if not path.is_file():
        raise CommandError(f"the replay {path}: there is no such file.")
    try:
        described = load_checkpoint(beside).get(KEY)
    except CheckpointError as error:
        raise CommandError(
            f"the replay {path} is read with the checkpoint beside it, which describes its behavior. {error}"
        ) from error
    if described is None or "extrinsic" not in described["reward_signals"]:
        raise CommandError(
            f"the replay {path}: {beside} beside it is not of a run of Lanista with the reward signal "
            "extrinsic, whose rewards are learned from. Give a replay where its run left it."
        )
    try:
        column = described["reward_signals"].index("extrinsic")
        return SavedSteps(path, described["behavior"], replay_episodes(path, build_spec(described), column))
    except ReplayFileError as error:
        raise CommandError(f"the replay {path}: {error}.") from error


def _behavior(demos: Sequence[Demonstration | SavedSteps]) -> str:
    """The name of the behavior that was recorded.

    Raises:
        CommandError: the files are of several, or do not say.
    """
    from ....envs.base import BehaviorName

    names = {BehaviorName.parse(demo.behavior).name: demo.path for demo in demos}
    if len(names) > 1:
        listed = ", ".join(f"{name or '(no name)'} ({path.name})" for name, path in names.items())
        raise CommandError(
            f"the demonstrations are of several behaviors: {listed}. Give those of one, or, to learn all of "
            "them as one, --behavior NAME."
        )
    (name,) = names
    if not name:
        raise CommandError(f"{demos[0].path} does not name its behavior: give --behavior NAME.")
    return name


def _joined(demos: Sequence[Demonstration | SavedSteps], paths: Sequence[str]) -> Demonstrations:
    from ...buffers.demonstrations import join_demonstrations

    joined = join_demonstrations(demos, Path(paths[0]))
    actions = joined.spec.action_spec
    if not actions.continuous_size and not actions.discrete_size:
        raise CommandError(f"The behavior of {demos[0].path} has no actions: there is nothing to imitate.")
    return joined


def _require_rewards(options: RunOptions, name: str, demos: Demonstrations) -> None:
    """Refuse to learn from rewards where there are none."""
    from ...settings.models.rewards import CloningMethod

    own = options.behavior(name).clone
    if own is not None and own.method is CloningMethod.IQL and not demos.rewards.any():
        raise CommandError(
            f"behaviors.{name}.clone.method: iql learns from the rewards in the demonstrations, and all of "
            "them are 0. Use method: bc, or demonstrations in which something is earned."
        )


def _options(arguments: argparse.Namespace, name: str) -> RunOptions:
    """The configuration: the flags over the files, these over the preset, and all of them over defaults."""
    from ...settings.command_line import assign, settle_start, split_assignment
    from ...settings.options import RunOptions
    from ...settings.validation import require_trainable

    source = _source(arguments, name)
    if "run_id" not in (source.data.get("checkpoint_settings") or {}):
        assign(source, ("checkpoint_settings", "run_id"), RUN_ID, "lanista clone")
    given = vars(arguments)
    typed: dict[tuple[str | int, ...], tuple[Any, str]] = {
        (section, key): (given[key], f"--{key.replace('_', '-')}")
        for key, section in FLAGS.items()
        if key in given
    }
    typed["behaviors", name, "clone", "demos"] = arguments.demos, "DEMO"
    for key in ("method", "gradient_steps", "held_out"):
        if key in given:
            typed["behaviors", name, "clone", key] = given[key], f"--{key.replace('_', '-')}"
    for text in arguments.set:
        try:
            path, value = split_assignment(text)
        except ValueError as error:
            raise CommandError(f"--set: {error}") from error
        typed[path] = value, f"--set {text}"
    for path, (value, flag) in typed.items():
        assign(source, path, value, f"command line, {flag}")
    options = RunOptions.from_source(source)
    settle_start(options.checkpoint_settings, set(typed))
    require_trainable(name, options.behavior(name))
    if options.torch_settings.learners > 1:
        raise CommandError(
            f"torch_settings.learners: found {options.torch_settings.learners}; a clone is learned in one "
            "process: add --set torch_settings.learners=1."
        )
    return options


def _source(arguments: argparse.Namespace, name: str) -> Source:
    """What files and preset say of the behavior, or the defaults.

    Raises:
        CommandError: they do not list it.
    """
    from ...settings.yaml_source import Source, compose, read_file, read_preset

    read = [read_preset(arguments.preset)] if arguments.preset else []
    read += [read_file(file) for file in arguments.config or ()]
    if not read:
        return Source({"behaviors": {name: DEFAULTS}})
    source = compose(read)
    listed = source.data.get("behaviors")
    if isinstance(listed, dict) and name not in listed and not source.data.get("default_settings"):
        raise CommandError(
            f"the behavior {name} of the demonstrations is not in {source.name} (listed: "
            f"{', '.join(map(str, listed)) or 'none'}). Add it there, or say by --behavior which one it is."
        )
    return source


def _clone(options: RunOptions, name: str, demos: Demonstrations) -> None:
    """One run, from its settings to its files."""
    from contextlib import closing

    from ...callbacks.factory import make_callbacks
    from ...checkpoints.run_folder import claimed_run_folder, recorded_start, write_configuration
    from ...checkpoints.status import TrainingStatus
    from ...checkpoints.transfer import check_initial_weights
    from ...learn import run_seed
    from ...runner.preflight import set_malloc_thresholds
    from ...runner.signals import StopSignals
    from ...settings.models.outputs import CONSOLE, writes_to
    from ...settings.named import named_by
    from ...stats.display import make_display
    from ...utils.logging import configure_logging
    from ...utils.requirements import check_requirements, limit_openmp_spinning, load_torch
    from ...utils.trust import mark_own

    check_requirements(options.torch_settings.device)
    settings = options.checkpoint_settings
    display = make_display(settings.run_id, plain=True, silent=not writes_to(options.stats_writers, CONSOLE))
    configure_logging(options.debug, display.terminal)
    with StopSignals() as signals, closing(display):
        check_initial_weights(options, [name])
        callbacks = make_callbacks(options, ())
        with claimed_run_folder(settings) as folder:
            if options.env_settings.seed == -1:
                options = options.with_seed(run_seed(folder, resumed=settings.resume))
            status = TrainingStatus(folder / "run_logs" / "training_status.json")
            if settings.resume:
                status.load()
                options = options.with_start(recorded_start(folder))
            else:
                write_configuration(folder, options)
            mark_own(folder, named_by(options))
            limit_openmp_spinning()
            set_malloc_thresholds()
            load_torch()
            from .run import clone

            clone(options, name, demos, folder, status, display, signals, callbacks)
