"""Where a configuration means something different to ML-Agents 1.1.0, or meets one of its quirks.

Each rule checks one thing in what was written or in what it means. A new trainer or section brings rules of
its own: an entry in one of the lists, or a few lines in `_of_behavior` or `_of_run`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .errors import Path, Problem
from .mlagents_config import WRITTEN_RULES, Remark
from .models.algorithms import BaselineClip, ClippedObjectiveSettings, POCASettings, PPOSettings, SACSettings
from .models.behavior import TrainerSettings
from .models.environment_parameters import MeasureType, SamplerSettings
from .models.hyperparameters import InterruptedValue, ScheduleType
from .models.rewards import GAILSettings
from .options import RunOptions
from .validation import listed_behaviors, section_of
from .yaml_source import Source

FLOORS = {"learning_rate": 1e-10, "beta": 1e-5}
"""Where linear schedules end, as in `trainers/algorithms/common/optim.py`; tests compare the two."""


@dataclass(frozen=True)
class _Rule:
    """A remark about a behavior, or about the run, with a text that is always the same."""

    key: str
    """Dotted; below the behavior, or in the whole file."""
    applies: Callable[[Any], bool]
    """Whether it is about these TrainerSettings, or these RunOptions."""
    text: str


def _clipped(settings: TrainerSettings) -> bool:
    return isinstance(settings.hyperparameters, ClippedObjectiveSettings)


def _adapts_learning_rate(settings: TrainerSettings) -> bool:
    return settings.hyperparameters.learning_rate_schedule is ScheduleType.ADAPTIVE_KL


def _is_sac(settings: TrainerSettings) -> bool:
    return isinstance(settings.hyperparameters, SACSettings)


def _bootstraps_from_last(settings: TrainerSettings) -> bool:
    hyper = settings.hyperparameters
    return isinstance(hyper, SACSettings) and hyper.interrupted_value is InterruptedValue.LAST_OBSERVATION


def _clips_baselines_by_reward(settings: TrainerSettings) -> bool:
    hyper = settings.hyperparameters
    return isinstance(hyper, POCASettings) and hyper.baseline_clip is BaselineClip.REWARD


def _remembers(settings: TrainerSettings) -> bool:
    return settings.network_settings.memory is not None


def _clips_no_values(settings: TrainerSettings) -> bool:
    hyper = settings.hyperparameters
    return isinstance(hyper, PPOSettings) and not hyper.clip_value_loss


def _clones_own_actions(settings: TrainerSettings) -> bool:
    return settings.behavioral_cloning is not None and not settings.clones_engine_actions


def _compares_own_actions(settings: TrainerSettings) -> bool:
    gail = settings.reward_signals.get("gail")
    return isinstance(gail, GAILSettings) and gail.use_actions and not gail.engine_actions


BEHAVIOR_RULES = [
    _Rule(
        "network_settings.hidden_units",
        lambda settings: isinstance(settings.network_settings.hidden_units, list),
        "a list of widths is Lanista's own form: ML-Agents refuses it",
    ),
    _Rule(
        "hyperparameters.learning_rate_schedule",
        _adapts_learning_rate,
        "adaptive_kl is Lanista's own value: ML-Agents refuses it",
    ),
    _Rule(  # C1
        "hyperparameters.clip_value_loss",
        _clips_no_values,
        "ML-Agents means to clip how far a value estimate moves and never does, and its settings are "
        "tuned to that; it is the same here. true clips",
    ),
    _Rule(  # C2, C9
        "network_settings.memory",
        lambda settings: _remembers(settings) and _clipped(settings),
        "ML-Agents' critic has one memory, which goes from agent to agent; here it remembers each "
        "agent for itself, until its episode ends. Steps that fill up a sequence count when "
        "advantages are normalized, as in ML-Agents",
    ),
    _Rule(  # C4 to C8
        "trainer_type",
        _is_sac,
        "a brain's deterministic continuous action is the squashed mean here, and the mean as it is in "
        "ML-Agents, where it may be beyond 1. With continuous and discrete actions together ML-Agents "
        "rewards certainty of the continuous ones in the value's target; here entropy is",
    ),
    _Rule(
        "hyperparameters.interrupted_value",
        _bootstraps_from_last,
        "an interrupted episode is bootstrapped from the last observation that the engine sent; ML-Agents "
        "makes the step before it its own successor. own_observation does as ML-Agents",
    ),
    _Rule(
        "hyperparameters.buffer_size",
        _is_sac,
        "a full replay drops as many of its oldest steps as new ones arrive; ML-Agents drops a fifth at once",
    ),
    _Rule(
        "hyperparameters",
        lambda settings: settings.trainer_type == "poca",
        "members of a group count from their first decision, also one that dies in the group's first step: "
        "its teammates' value is bootstrapped. ML-Agents takes such a death for the end of the group",
    ),
    _Rule(
        "hyperparameters.baseline_clip",
        _clips_baselines_by_reward,
        "baselines move by at most epsilon in an update, in units of the reward, as in ML-Agents: they lag "
        "behind returns that vary by more. deviation or none lets them follow",
    ),
    _Rule(
        "hyperparameters.init_entcoef",
        _is_sac,
        "the entropy coefficients that have been learned are in checkpoints here; in ML-Agents a resumed "
        "run begins with this one again",
    ),
    _Rule(
        "network_settings.memory",
        lambda settings: _remembers(settings) and _is_sac(settings),
        "steps that fill up a sequence are not learned from; ML-Agents learns values from them too, "
        "and may cut sequences apart when it shortens its replay",
    ),
    _Rule(  # D1, D2
        "behavioral_cloning.engine_actions",
        _clones_own_actions,
        "continuous actions are cloned as the policy draws them, before they are clipped and divided "
        "by 3 for the engine: with ppo and poca they come out about three times too small, as in "
        "ML-Agents. true compares what the engine gets",
    ),
    _Rule(
        "reward_signals.gail.engine_actions",
        _compares_own_actions,
        "continuous actions are compared as the policy draws them, three times as large with ppo and "
        "poca as the engine gets them, as in ML-Agents. true compares what the engine gets",
    ),
    _Rule(
        "max_steps",
        lambda settings: settings.endless,
        "trains until it is stopped; ML-Agents is past its end at once and learns nothing",
    ),
    _Rule(  # A15
        "threaded",
        lambda settings: settings.threaded,
        "environments go on while the policy learns. ML-Agents acts by weights that change "
        "meanwhile; here they change between two ticks: with ppo, poca and mappo, which learn in a "
        "process, when the next rollout is complete",
    ),
]

RUN_RULES = [
    _Rule(  # E6, E7
        "default_settings",
        lambda options: options.default_settings is not None,
        "behaviors that are not listed get these settings, and --deterministic and --initialize-from "
        "hold for them too; ML-Agents passes over them",
    ),
    _Rule(  # C28
        "env_settings.seed",
        lambda options: options.env_settings.seed == -1,
        "not given, so drawn, from 0 to 9999; here it is written into configuration.yaml, so that the "
        "run can be repeated",
    ),
    _Rule(  # B5, B15
        "env_settings.num_envs",
        lambda options: options.env_settings.num_envs > 1,
        "an environment that fails is started again alone; ML-Agents resets all of them and drops their "
        "unfinished episodes",
    ),
    _Rule(  # E5, E12, B12
        "checkpoint_settings.force",
        lambda options: options.checkpoint_settings.force,
        "an older run of this name is set aside under another; ML-Agents mixes the files of both",
    ),
    _Rule(
        "checkpoint_settings.inference",
        lambda options: options.checkpoint_settings.inference,
        "no checkpoint is written or removed; ML-Agents goes on writing and pruning them",
    ),
]


def _written(source: Source, path: Path) -> bool:
    """Whether the text itself has something at `path`."""
    data: Any = source.data
    for key in path:
        if not isinstance(data, dict) or key not in data:
            return False
        data = data[key]
    return True


def _of_behavior(source: Source, section: Path, settings: TrainerSettings) -> Iterator[Remark]:
    """The remarks about one behavior, whose settings are at `section`."""
    yield from _rising_schedules(section, settings)
    for name in settings.reward_signals:  # C27
        if settings.trainer_type == "poca" and name != "extrinsic":
            yield (
                (*section, "reward_signals", name),
                "ML-Agents warns that poca does not support this signal, and goes on with unexpected "
                "results; here every trainer does",
            )
    for rule in BEHAVIOR_RULES:
        if rule.applies(settings):
            yield (*section, *rule.key.split(".")), rule.text
    where = (*section, "threaded")  # H: defaults that ML-Agents' documentation states otherwise
    if not settings.threaded and not _written(source, where):
        yield (
            where,
            "not given, so false, as in ML-Agents 1.1.0, whose documentation says true: environments "
            "wait while the policy learns",
        )
    where = (*section, "self_play", "swap_steps")
    if settings.self_play is not None and not _written(source, where):
        swap = settings.self_play.swap_steps
        yield where, f"not given, so {swap}, as in ML-Agents 1.1.0, whose documentation says 10000"
    if settings.init_path is not None:  # E8, E13
        folder = "" if settings.init_path.endswith(".pt") else " ML-Agents takes no folder here, but a .pt."
        yield (
            (*section, "init_path"),
            "a run that is resumed goes on with its own weights; ML-Agents loads these again and "
            f"discards them.{folder}",
        )


def _rising_schedules(section: Path, settings: TrainerSettings) -> Iterator[Remark]:
    """C14."""
    hyper = settings.hyperparameters
    if not isinstance(hyper, ClippedObjectiveSettings):
        return
    for key, floor in {**FLOORS, "epsilon": hyper.clip_end}.items():
        value, schedule = getattr(hyper, key), getattr(hyper, f"{key}_schedule")
        if schedule is ScheduleType.LINEAR and value < floor:
            yield (
                (*section, "hyperparameters", key),
                f"{value:g} is below {floor:g}, where the linear schedule ends: it rises to {floor:g} in "
                f"the course of the run, as in ML-Agents. {key}_schedule: constant keeps it",
            )


def _of_run(options: RunOptions) -> Iterator[Remark]:
    """The remarks about the whole run."""
    for rule in RUN_RULES:
        if rule.applies(options):
            yield tuple(rule.key.split(".")), rule.text
    device = options.torch_settings.device or ""  # E14
    if device.startswith("cuda:") and device != "cuda:0":
        yield (
            ("torch_settings", "device"),
            f"ML-Agents puts part of its tensors on cuda:0 all the same; here all are on {device}",
        )
    for name in options.environment_parameters or {}:  # E17
        if name in options.behaviors:
            yield (
                ("environment_parameters", name),
                "a behavior has the same name, and training_status.json keeps both in one place, as in "
                "ML-Agents: rename one",
            )
    yield from _drawn_parameters(options)
    yield from _measured_rewards(options)


def _measured_rewards(options: RunOptions) -> Iterator[Remark]:
    """Lessons of teams are measured by what groups earn."""
    for name, parameter in (options.environment_parameters or {}).items():
        for number, lesson in enumerate(parameter.curriculum):
            criteria = lesson.completion_criteria
            if criteria is None or criteria.measure is not MeasureType.REWARD:
                continue
            settings = options.behaviors.get(criteria.behavior) or options.default_settings
            if settings is not None and settings.trainer_type == "poca":
                yield (
                    ("environment_parameters", name, "curriculum", number, "completion_criteria"),
                    "measure: reward is what groups earn where groups earn rewards; ML-Agents measures what "
                    "single agents earn, also where that is always 0",
                )


def _drawn_parameters(options: RunOptions) -> Iterator[Remark]:
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


def explain(source: Source, options: RunOptions | None) -> list[Problem]:
    """Where ML-Agents and Lanista differ about this configuration, and quirks of ML-Agents that it meets.

    Args:
        source: what is written; `compose` makes one of several files.
        options: what that means; None where something is wrong with it.

    Returns:
        In the order of the file.
    """
    remarks = [remark for rule in WRITTEN_RULES for remark in rule(source)]
    if options is not None:
        for name, settings in listed_behaviors(options):
            remarks += _of_behavior(source, section_of(name), settings)
        remarks += _of_run(options)
    order = {path: number for number, path in enumerate(_paths(source.data, ()))}
    remarks.sort(key=lambda remark: _position(remark, order))
    return [Problem(path, message, _place(source, path)) for path, message in remarks]


def _place(source: Source, path: Path) -> str:
    """The line of the path, or of the section that would hold it; only the file if neither is written."""
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
    """The position of the path, or of the section that would hold it; unwritten ones come last."""
    path = remark[0]
    for length in range(len(path), 0, -1):
        if path[:length] in order:
            return order[path[:length]]
    return len(order)
