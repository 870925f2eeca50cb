"""The models that a command is given: those of runs, by ID or folder, and single files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, repeat
from pathlib import Path

from ...envs.base import BehaviorName
from ..checkpoints.status import TrainingStatus, TrainingStatusError
from ..curriculum import Curriculum
from ..policies.onnx.load import LoadError, behaviors_in, find_policy, slot_brains
from ..policies.onnx.loaded_policy import PlayablePolicy
from ..policies.onnx.runtime import SlotPolicies
from ..runner.engine_options import takes_state, uses_self_play
from ..settings.errors import TrainerConfigError
from ..settings.models.environment_parameters import SamplerSettings
from ..settings.named import named_environment, named_plugins
from ..settings.options import RunOptions
from ..settings.yaml_source import read_file
from ..utils.errors import CommandError, did_you_mean
from ..utils.trust import Trust
from ..utils.trusted_names import Named
from .runs.record import find_runs, run_folder

_STEP = re.compile(r"-([0-9]+|best)$")


@dataclass(frozen=True)
class Model:
    """A policy and what is known of the behavior that it was trained for."""

    source: Path
    """The file that it was read from."""
    behavior: str
    """The name of its behavior; of a single file, as far as the file's name tells."""
    policy: PlayablePolicy
    of_run: bool
    """Whether it is from a run's folder, which tells the behavior for certain."""
    slots: tuple[Path, ...] = ()
    """The files by the agents' slots, where each slot has its own."""

    def is_for(self, behavior_id: str) -> bool:
        """Whether the behavior's full name, or its name without the team, is the model's."""
        return self.behavior in (behavior_id, BehaviorName.parse(behavior_id).name)


def find_run(given: str, results: Path) -> Path:
    """The folder of a run that is given by its ID (that comes first) or folder.

    Raises:
        LoadError: there is neither such a folder nor such a run.
    """
    folder = run_folder(given, results)
    if folder.is_dir():
        return folder
    hint = did_you_mean(given, (path.relative_to(results).as_posix() for path in find_runs(results)))
    names_a_file = re.search(r"[/\\]|\.(onnx|pt|safetensors)$", given)
    run = "" if names_a_file else f", and no run {results / given}"
    raise LoadError(f"{given}: there is no such file or folder{run}.{hint}")


def find_models(
    given: Sequence[str], results: Path, seed: int | None = None, trust: Trust | None = None
) -> list[Model]:
    """The models that arguments name: a run's ID or folder, a brain (.onnx) or a checkpoint (.pt) each.

    Args:
        given: the arguments.
        results: the folder of the runs that are given by ID.
        seed: of sampled actions, the first model's; the others have those that follow. None: they differ
            each time.
        trust: as of `build_network`.

    Raises:
        LoadError: one of them is not there, or holds no policy; or two are for the same behavior.
    """
    seeds: Iterator[int | None] = repeat(None) if seed is None else count(seed)
    models = [model for text in dict.fromkeys(given) for model in _models(text, results, seeds, trust)]
    behavior, times = Counter(model.behavior for model in models).most_common(1)[0]
    if times > 1:
        which = " and ".join(str(model.source) for model in models if model.behavior == behavior)
        raise LoadError(
            f"{which} are for the same behavior, {behavior}: play them one after another, or against each "
            "other with lanista tournament."
        )
    return models


def _models(given: str, results: Path, seeds: Iterator[int | None], trust: Trust | None) -> list[Model]:
    if Path(given).is_file():
        source, policy = find_policy(given, seed=next(seeds), trust=trust)
        return [Model(source, _behavior_of(source), policy, False)]
    folder = find_run(given, results)
    names = behaviors_in(folder)
    if not names:  # the folder of a behavior, or an error that says what is missing
        return [_found(folder, None, seeds, trust)]
    return [_found(folder, name, seeds, trust) for name in names]


def _found(folder: Path, behavior: str | None, seeds: Iterator[int | None], trust: Trust | None) -> Model:
    name = behavior or folder.resolve().name
    slots = slot_brains(folder, behavior)
    if slots:
        brains = [find_policy(path, seed=next(seeds), trust=trust)[1] for path in slots]
        return Model(slots[0], name, SlotPolicies(brains), True, tuple(slots))
    source, policy = find_policy(folder, behavior=behavior, seed=next(seeds), trust=trust)
    return Model(source, name, policy, True)


def _behavior_of(file: Path) -> str:
    """The behavior by the name of a file: `<behavior>-<step>`, or checkpoint.pt in the behavior's folder."""
    stem = _STEP.sub("", file.stem)
    return file.resolve().parent.name if stem == "checkpoint" else stem


@dataclass(frozen=True)
class TrainingEnvironment:
    """The environment of a run."""

    path: str | None
    """The environment's path; None for the engine's editor."""
    arguments: list[str]
    """The arguments of the environment itself."""
    parameters: dict[str, SamplerSettings]
    """The parameters of the environment, in the lessons that the run has come to."""
    lines: list[str]
    """A sentence on each parameter."""
    with_state: bool
    """Whether models may read the environment's global state: the run has, or other models are given too."""
    self_play: bool
    """Whether the run let one policy play all seats of a turn-based game."""


def environment_of(given: Sequence[str], results: Path, trust: Trust) -> TrainingEnvironment | None:
    """The environment with which the first run was trained, which the user trusts.

    Returns None if no run, and no folder of a run's behavior, is given whose configuration.yaml is there.

    Raises:
        CommandError: the configuration, or the lessons, cannot be read, or are not trusted.
        LoadError: there is no such run.
    """
    folders = [find_run(text, results) for text in given if not Path(text).is_file()]
    for place in (place for folder in folders for place in (folder, folder.parent)):
        configuration = place / "configuration.yaml"
        if configuration.is_file():
            try:
                options = _trusted_options(configuration, trust)
                curriculum = Curriculum(options.environment_parameters, max(options.env_settings.seed, 0))
                if curriculum.lessons:
                    status = TrainingStatus(place / "run_logs" / "training_status.json")
                    curriculum.bind_status(status, resumed=status.read())
            except (TrainerConfigError, TrainingStatusError) as error:
                raise CommandError(f"{configuration} cannot be read: {error}") from error
            env, lines = options.env_settings, [curriculum.line(name) for name in curriculum.lessons]
            return TrainingEnvironment(
                env.env_path,
                [*(env.env_args or ())],
                curriculum.samplers(),
                lines,
                with_state=takes_state(options) or len(given) > 1,
                self_play=uses_self_play(options),
            )
    return None


def _trusted_options(configuration: Path, trust: Trust) -> RunOptions:
    """The settings of a run, whose plug-ins are imported and whose environment will be started.

    Raises:
        CommandError: the user does not trust these.
        TrainerConfigError: they cannot be read.
    """
    source = read_file(configuration, configuration.parent)
    require_trusted(trust, Named(imports=named_plugins(source.data)), configuration)
    options = RunOptions.from_source(source)
    require_trusted(trust, Named(named_environment(options.env_settings)), configuration)
    return options


def require_trusted(trust: Trust, named: Named, file: Path) -> None:
    """Refuse what a file names and the user does not trust. Raises CommandError."""
    refusal = trust.refusal(named, file)
    if refusal:
        raise CommandError(refusal)
