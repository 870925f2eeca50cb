"""Where a configuration means something else to ML-Agents 1.1.0, or meets one of its quirks.

Each rule looks at one thing in what was written or in what it means, and is silent about files that it does
not concern. Trainers and sections to come bring rules of their own: a rule is a function in one of the lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ...settings.models.algorithms import ClippedObjectiveSettings, PPOSettings, SACSettings
from ...settings.models.behavior import TrainerSettings
from ...settings.models.environment_parameters import SamplerSettings
from ...settings.models.hyperparameters import ScheduleType
from ...settings.models.rewards import GAILSettings
from ...settings.options import RunOptions
from ...settings.problems import dotted
from ...settings.yaml_source import Path, Source
from .mlagents_config import WRITTEN_RULES, Remark

FLOORS = {"learning_rate": 1e-10, "epsilon": 0.1, "beta": 1e-5}
"""Where linear schedules end, as in `trainers/algorithms/common/schedules.py`; tests compare the two."""


def behaviors(options: RunOptions) -> Iterator[tuple[Path, TrainerSettings]]:
    """Each listed behavior; where none is, the default settings."""
    for name, settings in options.behaviors.items():
        yield ("behaviors", name), settings
    if not options.behaviors and options.default_settings is not None:
        yield ("default_settings",), options.default_settings


def _written(source: Source, path: Path) -> bool:
    """Whether the text itself has something at `path`."""
    data: Any = source.data
    for key in path:
        if not isinstance(data, dict) or key not in data:
            return False
        data = data[key]
    return True


# Algorithms -------------------------------------------------------------------------------------------


def rising_schedules(source: Source, options: RunOptions) -> Iterator[Remark]:
    """C14."""
    for path, settings in behaviors(options):
        hyper = settings.hyperparameters
        if not isinstance(hyper, ClippedObjectiveSettings):
            continue
        for key, floor in FLOORS.items():
            value, schedule = getattr(hyper, key), getattr(hyper, f"{key}_schedule")
            if schedule is ScheduleType.LINEAR and value < floor:
                yield (
                    (*path, "hyperparameters", key),
                    f"{value:g} is below {floor:g}, where the linear schedule ends: it rises to {floor:g} in "
                    f"the course of the run, as in ML-Agents. {key}_schedule: constant keeps it",
                )


def value_clipping(source: Source, options: RunOptions) -> Iterator[Remark]:
    """C1."""
    for path, settings in behaviors(options):
        hyper = settings.hyperparameters
        if isinstance(hyper, PPOSettings) and not hyper.clip_value_loss:
            yield (
                (*path, "hyperparameters", "clip_value_loss"),
                "ML-Agents means to clip how far a value estimate moves and never does, and its settings are "
                "tuned to that; it is the same here. true clips",
            )


def memories(source: Source, options: RunOptions) -> Iterator[Remark]:
    """C2, C9."""
    for path, settings in behaviors(options):
        if settings.network_settings.memory is None:
            continue
        if isinstance(settings.hyperparameters, ClippedObjectiveSettings):
            yield (
                (*path, "network_settings", "memory"),
                "ML-Agents' critic has one memory, which goes from agent to agent; here it remembers each "
                "agent for itself, until its episode ends. Steps that fill up a sequence count when "
                "advantages are normalized, as in ML-Agents",
            )


def soft_actors(source: Source, options: RunOptions) -> Iterator[Remark]:
    """C4 to C8."""
    for path, settings in behaviors(options):
        if not isinstance(settings.hyperparameters, SACSettings):
            continue
        yield (
            (*path, "trainer_type"),
            "a brain's deterministic continuous action is the squashed mean here, and the mean as it is in "
            "ML-Agents, where it may be beyond 1. With continuous and discrete actions together ML-Agents "
            "rewards certainty of the continuous ones in the value's target; here entropy is",
        )
        yield (
            (*path, "hyperparameters", "init_entcoef"),
            "the entropy coefficients that have been learned are in checkpoints here; in ML-Agents a resumed "
            "run begins with this one again",
        )
        if settings.network_settings.memory is not None:
            yield (
                (*path, "network_settings", "memory"),
                "steps that fill up a sequence are not learned from; ML-Agents learns values from them too, "
                "and may cut sequences apart when it shortens its replay",
            )


def team_signals(source: Source, options: RunOptions) -> Iterator[Remark]:
    """C27."""
    for path, settings in behaviors(options):
        for name in settings.reward_signals:
            if settings.trainer_type == "poca" and name != "extrinsic":
                yield (
                    (*path, "reward_signals", name),
                    "ML-Agents warns that poca does not support this signal, and goes on with unexpected "
                    "results; here every trainer does",
                )


def cloned_actions(source: Source, options: RunOptions) -> Iterator[Remark]:
    """D1, D2."""
    for path, settings in behaviors(options):
        cloning, gail = settings.behavioral_cloning, settings.reward_signals.get("gail")
        if cloning is not None and not cloning.engine_actions:
            yield (
                (*path, "behavioral_cloning", "engine_actions"),
                "continuous actions are cloned as the policy draws them, before they are clipped and divided "
                "by 3 for the engine: with ppo and poca they come out about three times too small, as in "
                "ML-Agents. true compares what the engine gets",
            )
        if isinstance(gail, GAILSettings) and gail.use_actions and not gail.engine_actions:
            yield (
                (*path, "reward_signals", "gail", "engine_actions"),
                "continuous actions are compared as the policy draws them, three times as large with ppo and "
                "poca as the engine gets them, as in ML-Agents. true compares what the engine gets",
            )


# The run ----------------------------------------------------------------------------------------------


def endless(source: Source, options: RunOptions) -> Iterator[Remark]:
    """Training without an end."""
    for path, settings in behaviors(options):
        if settings.max_steps < 0:
            yield (
                (*path, "max_steps"),
                "trains until it is stopped; ML-Agents is past its end at once and learns nothing",
            )


def threads(source: Source, options: RunOptions) -> Iterator[Remark]:
    """A15, H."""
    for path, settings in behaviors(options):
        where = (*path, "threaded")
        if settings.threaded:
            yield (
                where,
                "environments go on while the policy learns. ML-Agents acts by weights that change "
                "meanwhile; here acting has a copy, which gets new weights after each update",
            )
        elif not _written(source, where):
            yield (
                where,
                "not given, so false, as in ML-Agents 1.1.0, whose documentation says true: environments "
                "wait while the policy learns",
            )


def self_play_defaults(source: Source, options: RunOptions) -> Iterator[Remark]:
    """H: a default that ML-Agents' documentation tells otherwise."""
    for path, settings in behaviors(options):
        where = (*path, "self_play", "swap_steps")
        if settings.self_play is not None and not _written(source, where):
            swap = settings.self_play.swap_steps
            yield where, f"not given, so {swap}, as in ML-Agents 1.1.0, whose documentation says 10000"


def beginnings(source: Source, options: RunOptions) -> Iterator[Remark]:
    """E8, E13."""
    for path, settings in behaviors(options):
        if settings.init_path is not None:
            folder = (
                "" if settings.init_path.endswith(".pt") else " ML-Agents takes no folder here, but a .pt."
            )
            yield (
                (*path, "init_path"),
                "a run that is resumed goes on with its own weights; ML-Agents loads these again and "
                f"discards them.{folder}",
            )


def unlisted(source: Source, options: RunOptions) -> Iterator[Remark]:
    """E6, E7."""
    if options.default_settings is not None:
        yield (
            ("default_settings",),
            "behaviors that are not listed get these settings, and --deterministic and --initialize-from "
            "hold for them too; ML-Agents passes over them",
        )


def seeds(source: Source, options: RunOptions) -> Iterator[Remark]:
    """C28."""
    if options.env_settings.seed == -1:
        yield (
            ("env_settings", "seed"),
            "not given, so drawn, from 0 to 9999; here it is written into configuration.yaml, so that the "
            "run can be repeated",
        )


def environments(source: Source, options: RunOptions) -> Iterator[Remark]:
    """B5, B15."""
    if options.env_settings.num_envs > 1:
        yield (
            ("env_settings", "num_envs"),
            "an environment that fails is started again alone; ML-Agents resets all of them and drops their "
            "unfinished episodes",
        )


def devices(source: Source, options: RunOptions) -> Iterator[Remark]:
    """E14."""
    device = options.torch_settings.device or ""
    if device.startswith("cuda:") and device != "cuda:0":
        yield (
            ("torch_settings", "device"),
            f"ML-Agents puts part of its tensors on cuda:0 all the same; here all are on {device}",
        )


def files(source: Source, options: RunOptions) -> Iterator[Remark]:
    """E5, E12, B12."""
    settings = options.checkpoint_settings
    if settings.force:
        yield (
            ("checkpoint_settings", "force"),
            "an older run of this name is set aside under another; ML-Agents mixes the files of both",
        )
    if settings.inference:
        yield (
            ("checkpoint_settings", "inference"),
            "no checkpoint is written or removed; ML-Agents goes on writing and pruning them",
        )


def namesakes(source: Source, options: RunOptions) -> Iterator[Remark]:
    """E17."""
    for name in options.environment_parameters or {}:
        if name in options.behaviors:
            yield (
                ("environment_parameters", name),
                "a behavior has the same name, and training_status.json keeps both in one place, as in "
                "ML-Agents: rename one",
            )


def drawn_parameters(source: Source, options: RunOptions) -> Iterator[Remark]:
    """Seeds of samplers follow that of the run."""
    samplers: list[tuple[str, SamplerSettings]] = [
        (name, lesson.value)
        for name, parameter in (options.environment_parameters or {}).items()
        for lesson in parameter.curriculum
    ]
    for number, (name, sampler) in enumerate((n, s) for n, s in samplers if s.seed == -1):
        if sampler.sampler_type != "constant":
            yield (
                ("environment_parameters", name),
                f"its seed is the run's + {number}: samplers without one are counted in the order of the "
                "file, constants included, as in ML-Agents",
            )


SEMANTIC_RULES: list[Callable[[Source, RunOptions], Iterator[Remark]]] = [
    rising_schedules,
    value_clipping,
    memories,
    soft_actors,
    team_signals,
    cloned_actions,
    endless,
    threads,
    self_play_defaults,
    beginnings,
    unlisted,
    seeds,
    environments,
    devices,
    files,
    namesakes,
    drawn_parameters,
]


@dataclass(frozen=True)
class Difference:
    """One thing about a configuration that who comes from ML-Agents should know."""

    path: str
    """Where in the tree, such as `behaviors.Ball.hyperparameters.epsilon`."""
    message: str
    place: str = ""
    """Where it was written: `ball.yaml, line 12`."""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.place, self.path, self.message) if part)


def explain(source: Source, options: RunOptions | None) -> list[Difference]:
    """Where ML-Agents and Lanista differ about this configuration, and quirks of ML-Agents that it meets.

    Args:
        source: what is written; `compose` makes one of several files.
        options: what that means; None where something is wrong with it.

    Returns:
        In the order of the file.
    """
    remarks = [remark for rule in WRITTEN_RULES for remark in rule(source)]
    if options is not None:
        remarks += [remark for rule in SEMANTIC_RULES for remark in rule(source, options)]
    order = {path: number for number, path in enumerate(_paths(source.data, ()))}
    remarks.sort(key=lambda remark: _position(remark, order))
    return [Difference(dotted(path), message, _place(source, path)) for path, message in remarks]


def _place(source: Source, path: Path) -> str:
    """The line of what is written; only the file of what is not, not even the section that would hold it."""
    return source.place(path) if path[:1] in source.places else source.name


def _paths(data: object, path: Path) -> Iterator[Path]:
    yield path
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _paths(value, (*path, str(key)))
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield from _paths(value, (*path, number))


def _position(remark: Remark, order: dict[Path, int]) -> int:
    """That of the path, or of what would hold it; what is written nowhere comes last."""
    path = remark[0]
    for length in range(len(path), 0, -1):
        if path[:length] in order:
            return order[path[:length]]
    return len(order)
