"""Valid configurations that cannot be trained: unsupported features, learners, unreachable lessons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..utils.errors import did_you_mean
from .base import found, plain
from .errors import Path, Problem, TrainerConfigError
from .models.behavior import TrainerSettings
from .models.environment_parameters import CompletionCriteriaSettings, MeasureType
from .models.hyperparameters import OffPolicyHyperparamSettings
from .models.networks import NetworkSettings
from .models.outputs import READY, choice
from .models.rewards import LearnedRewardSettings
from .models.run import EnvironmentSettings
from .options import RunOptions
from .registry import TrainerType, find_trainer, trainer_types

ATTENTION_HEADS = 4
"""Of `SelfAttention` in trainers/networks, which needs torch."""
UNREWARDED = (
    "found no reward signal, so there is nothing to learn: remove this key for the environment's own "
    "rewards, or name {extrinsic: {}}"
)


def unsupported(options: RunOptions) -> list[Problem]:
    """Everything in the configuration that this version does not support.

    Behaviors that the configuration does not list are checked by `require_trainable` when they appear; if it
    lists none, they will all get the default settings.
    """
    listed, learners = listed_behaviors(options), options.torch_settings.learners
    problems = [
        problem.within(section_of(name))
        for name, settings in listed
        for problem in _unsupported_settings(settings)
    ]
    learning = [*_run_refusals(options)]
    learning += [why for name, settings in listed for why in _behavior_refusals(name, settings, learners)]
    problems += [Problem(LEARNERS, why) for why in learning]
    return [problem.located(options.place) for problem in problems]


def listed_behaviors(options: RunOptions) -> list[tuple[str | None, TrainerSettings]]:
    """The settings of each behavior by its name; where none is listed, the default settings, without one."""
    if options.behaviors or options.default_settings is None:
        return list(options.behaviors.items())
    return [(None, options.default_settings)]


def section_of(name: str | None) -> Path:
    """Where the settings of the behavior of this name are; `name` None: the default settings."""
    return ("default_settings",) if name is None else ("behaviors", name)


def trains_nothing(options: RunOptions) -> list[Problem]:
    """Whether the configuration defines no behavior, or one that has no reward signal."""
    if not options.trains_something:
        message = "it defines no behavior to train; add a section `behaviors:`"
        return [Problem((), message, options.file or "")]
    return [
        problem.within(section_of(name)).located(options.place)
        for name, settings in listed_behaviors(options)
        for problem in _unrewarded(settings)
    ]


def _unrewarded(settings: TrainerSettings) -> Iterator[Problem]:
    if not settings.reward_signals:
        yield Problem(("reward_signals",), UNREWARDED)


def contradictions(options: RunOptions) -> list[Problem]:
    """What is valid key by key but cannot work: nothing to train, or what would be waited for in vain."""
    return [*trains_nothing(options), *endless_lessons(options), *_idle_callbacks(options)]


def require_support(options: RunOptions) -> None:
    """Refuse a run whose configuration is not supported, or cannot work.

    Raises:
        TrainerConfigError: naming each such key.
    """
    problems = unsupported(options) or contradictions(options)
    if problems:
        raise TrainerConfigError(problems)


def require_trainable(
    name: str, settings: TrainerSettings, learners: int = 1, standalone: bool = False
) -> None:
    """Refuse a behavior that cannot be trained with these settings, at whatever door they came in.

    Args:
        name: the behavior's.
        settings: its own.
        learners: how many learn it together.
        standalone: a script advances its trainer to learn, and nothing of a run is there.

    Raises:
        TrainerConfigError: naming each such key.
    """
    problems = [problem.within(section_of(name)) for problem in refusals(settings, standalone)]
    problems += [Problem(LEARNERS, why) for why in _behavior_refusals(name, settings, learners)]
    if problems:
        raise TrainerConfigError(problems)


def refusals(settings: TrainerSettings, standalone: bool = False) -> list[Problem]:
    """Why a behavior cannot be trained with these settings; paths begin at its section.

    `standalone`: a script advances its trainer, and nothing of a run is there.
    """
    problems = [*_unsupported_settings(settings), *_unrewarded(settings)]
    if standalone and settings.self_play is not None:
        message = "opponents with older weights play in a run alone (lanista.train): remove this section"
        problems.append(Problem(("self_play",), message))
    return problems


def _unsupported_settings(settings: TrainerSettings) -> Iterator[Problem]:
    kind = find_trainer(settings.trainer_type)
    assert kind is not None, "settings are those of a known trainer"
    if settings.network_settings.memory is not None and not kind.recurrent:
        recurrent = [name for name, kind in trainer_types.items() if kind.recurrent]
        message = f"this version gives agents a memory with {', '.join(recurrent)} alone: remove this section"
        yield Problem(("network_settings", "memory"), message)
    yield from _demonstrations_problems(settings)
    yield from _n_steps_problems(settings)
    yield from _attention_problems(settings)
    yield from _residual_problems(settings)
    yield from _gaussian_problems(settings)
    if settings.network_settings.critic is not None and not kind.own_critic:
        own = [name for name, kind in trainer_types.items() if kind.own_critic]
        message = f"this version builds a critic otherwise than the policy with {', '.join(own)} alone"
        yield Problem(("network_settings", "critic"), f"{message}: remove this section")
    elif not kind.critic_prepares:
        yield from _critics_problems(settings)
    yield from _critic_only_problems(settings, kind)


OF_POLICY: Path = ("network_settings",)
OF_CRITIC: Path = ("network_settings", "critic")


def networks_of(settings: TrainerSettings) -> dict[Path, NetworkSettings]:
    """The networks of a behavior, by their sections: the policy's, those of its signals, and its critic's."""
    networks: dict[Path, NetworkSettings] = {OF_POLICY: settings.network_settings}
    for name, signal in settings.reward_signals.items():
        of_signal = getattr(signal, "network_settings", None)
        if of_signal is not None:
            networks["reward_signals", name, "network_settings"] = of_signal
    if settings.network_settings.critic is not None:
        networks[OF_CRITIC] = settings.network_settings.critic
    return networks


def _demonstrations_problems(settings: TrainerSettings) -> Iterator[Problem]:
    """Demonstrated steps are a part of the minibatches that a replay gives."""
    if settings.demonstrations is None:
        return
    hyper = settings.hyperparameters
    if not isinstance(hyper, OffPolicyHyperparamSettings):
        able = [name for name, kind in trainer_types.items() if _has_replay(kind)]
        message = (
            f"{settings.trainer_type} learns from the steps of its newest policy alone "
            f"({', '.join(able)} have a replay): remove this section, or use behavioral_cloning or gail"
        )
        yield Problem(("demonstrations",), message)
    elif (units := units_of(settings)) < 2:
        of = "step" if settings.network_settings.memory is None else "sequence"
        message = (
            f"found {hyper.batch_size}; a minibatch of {units} {of} cannot be divided between replay and "
            "demonstrations: raise it"
        )
        yield Problem(("hyperparameters", "batch_size"), message)


def _has_replay(kind: TrainerType) -> bool:
    return issubclass(kind.settings, OffPolicyHyperparamSettings)


def units_of(settings: TrainerSettings) -> int:
    """What a minibatch is made of: its steps, with a memory its whole sequences."""
    memory = settings.network_settings.memory
    length = 1 if memory is None else memory.sequence_length
    return max(settings.hyperparameters.batch_size // length, 1)


def _n_steps_problems(settings: TrainerSettings) -> Iterator[Problem]:
    """Neither memories nor learned signals are evaluated for the steps that follow a sampled one."""
    n_step = getattr(settings.hyperparameters, "n_step", 1)
    if n_step > 1 and settings.network_settings.memory is not None:
        message = "with a memory what follows a step is valued within its own sequence, step by step: set 1"
        yield Problem(("hyperparameters", "n_step"), f"found {n_step}; {message}")
    learned = [
        name for name, one in settings.reward_signals.items() if isinstance(one, LearnedRewardSettings)
    ]
    if n_step > 1 and learned:
        message = f"{', '.join(learned)} evaluates each sampled step again, by itself: set 1"
        yield Problem(("hyperparameters", "n_step"), f"found {n_step}; {message}")


OF_GAUSSIANS = ("initial_log_std", "action_range")
"""Keys of the network of a policy whose continuous actions are Gaussian samples, clipped for the engine."""
BY_STATE = "state_dependent_exploration"
"""A key of the network of a policy whose continuous actions are Gaussian samples, also before tanh."""
WITHOUT_GAUSSIANS = {
    **dict.fromkeys(("sac", "td3", "ddpg"), "brings continuous actions into the engine's range by tanh"),
    **dict.fromkeys(("dqn", "coma"), "has no continuous actions"),
}
WITHOUT_SAMPLES = {
    **dict.fromkeys(("td3", "ddpg"), "adds noise to deterministic actions (hyperparameters.noise_type)"),
    **dict.fromkeys(("dqn", "coma"), "has no continuous actions"),
}


def _gaussian_problems(settings: TrainerSettings) -> Iterator[Problem]:
    """Keys that only the network of a policy with Gaussian actions has."""
    network, trainer = settings.network_settings, settings.trainer_type
    reasons: dict[str, str | None] = dict.fromkeys(OF_GAUSSIANS, WITHOUT_GAUSSIANS.get(trainer))
    reasons[BY_STATE] = WITHOUT_SAMPLES.get(trainer)
    if network.state_dependent_exploration is not None and trainer == "sac":
        reasons["initial_log_std"] = None  # there it is not a product of the network
    for key, reason in reasons.items():
        for place, one in networks_of(settings).items():
            if place == (OF_CRITIC if reason else OF_POLICY):
                continue
            inherited = network if place == OF_CRITIC else NetworkSettings()
            value = getattr(one, key)
            if value != getattr(inherited, key):
                why = f"{trainer} {reason}" if place == OF_POLICY else "only a policy's network has it"
                shown = found(plain(value)) if key == BY_STATE else f"{value:g}"
                yield Problem((*place, key), f"found {shown}; {why}: remove this key")


def _attention_problems(settings: TrainerSettings) -> Iterator[Problem]:
    """The critic of sets gives each of its attention heads an equal share of its width."""
    if settings.trainer_type not in ("poca", "mappo"):
        return
    network = settings.network_settings
    critic = network if network.critic is None else network.critic
    if critic.layer_sizes[0] % ATTENTION_HEADS:
        section = OF_POLICY if network.critic is None else OF_CRITIC
        remedy = "let the first be" if isinstance(critic.hidden_units, list) else "set"
        found_and_meant = (
            f"found {critic.hidden_units}; the critic attends to the members of a team with "
            f"{ATTENTION_HEADS} heads: {remedy} a multiple of {ATTENTION_HEADS}"
        )
        yield Problem((*section, "hidden_units"), found_and_meant)


def _residual_problems(settings: TrainerSettings) -> Iterator[Problem]:
    """A residual block adds to its input, and so has its width."""
    for place, network in networks_of(settings).items():
        if network.residual and len(set(network.layer_sizes)) > 1:
            message = f"found {found(network.hidden_units)}; residual blocks are all of one width: give one"
            yield Problem((*place, "hidden_units"), message)


def _critics_problems(settings: TrainerSettings) -> Iterator[Problem]:
    """Settings that a critic must share with the policy, since both read the same prepared sequences."""
    policy, critic = settings.network_settings, settings.network_settings.critic
    if critic is None:
        return
    place = OF_CRITIC
    if getattr(settings.hyperparameters, "shared_critic", False):
        message = "a shared critic is a part of the policy's network: remove this section or shared_critic"
        yield Problem(place, message)
    if critic.normalize is not policy.normalize:
        message = "the critic reads the observations as the policy's normalizer gives them: remove this key"
        yield Problem((*place, "normalize"), f"found {str(critic.normalize).lower()}; {message}")
    lengths = [None if one.memory is None else one.memory.sequence_length for one in (policy, critic)]
    if lengths[0] != lengths[1]:
        message = "policy and critic learn from the same sequences: give both a memory of one sequence_length"
        yield Problem((*place, "memory"), f"{message}, or neither")


def _critic_only_problems(settings: TrainerSettings, kind: TrainerType) -> Iterator[Problem]:
    """Observations can be kept from the policy where a critic that is not a part of it reads them."""
    hidden = settings.network_settings.critic_only_observations
    path = ("network_settings", "critic_only_observations")
    if not hidden:
        return
    if not kind.critic_only:
        able = [name for name, kind in trainer_types.items() if kind.critic_only]
        message = f"{settings.trainer_type} has no critic beside its policy ({', '.join(able)} have)"
        yield Problem(path, f"found {found(hidden)}; {message}: remove this key")
    elif getattr(settings.hyperparameters, "shared_critic", False):
        message = "a shared critic reads what the policy reads: remove this key or shared_critic"
        yield Problem(path, f"found {found(hidden)}; {message}")


LEARNERS: Path = ("torch_settings", "learners")
TOGETHER = ("cpu", "cuda")
"""Devices that several learners may use, each its own."""


def _run_refusals(options: RunOptions) -> Iterator[str]:
    """Why the whole run cannot have so many learners."""
    learners, device = options.torch_settings.learners, options.torch_settings.device
    if learners == 1:
        return
    if not options.checkpoint_settings.inference:
        yield from _environment_refusals(options.env_settings, learners)
    if device is not None and device not in TOGETHER:
        yield (
            f"found {learners}, and device (--torch-device) is {device!r}; several learners take the GPUs "
            "cuda:0, cuda:1 and so on, or the CPU: give cuda or cpu"
        )


def _environment_refusals(env: EnvironmentSettings, learners: int) -> Iterator[str]:
    """Why the environments cannot be divided among so many learners."""
    each = "and each learner has environments of its own"
    if env.attaches:
        yield f"found {learners}, {each}; engines that connect by themselves all come to one: set 1"
    elif env.editor:
        yield f"found {learners}, {each}; there is one editor: name a build or a scene with --env"
    elif env.ray is not None:
        yield f"found {learners}, {each}; those of a Ray cluster (--ray) all belong to one: set 1"
    elif env.environments < learners:
        flag = "--env-workers" if env.env_workers else "--num-envs"
        yield (
            f"found {learners}, {each}; there are {env.environments} ({flag}): raise {flag} to {learners} or "
            "more, or lower learners"
        )


def _behavior_refusals(name: str | None, settings: TrainerSettings, learners: int) -> Iterator[str]:
    """Why so many learners cannot learn such a behavior; `name` None: the default settings."""
    if learners == 1:
        return
    whose = "default_settings" if name is None else f"the behavior {name}"
    kind = find_trainer(settings.trainer_type)
    if kind is not None and not kind.learners:
        able = [name for name, kind in trainer_types.items() if kind.learners]
        yield (
            f"found {learners}, and {whose} has trainer_type: {settings.trainer_type}, which learns in one "
            f"process alone ({', '.join(able)} in several): remove this key"
        )
        return
    memory, units = settings.network_settings.memory, units_of(settings)
    least, each = 1, "one"
    if settings.demonstrations is not None:
        least, each = 2, "two, one of them from the demonstrations"
    if units < least * learners:
        of = "steps" if memory is None else f"whole sequences of {memory.sequence_length} steps"
        size = settings.hyperparameters.batch_size
        yield (
            f"found {learners}, and a minibatch of {whose} has {units} {of} (batch_size {size}), "
            f"of which each learner takes at least {each}: raise batch_size, or lower learners"
        )


def endless_lessons(options: RunOptions) -> list[Problem]:
    """Every lesson that would never end, and every curriculum without a lesson."""
    problems: list[Problem] = []
    for name, parameter in (options.environment_parameters or {}).items():
        lessons = parameter.curriculum
        place: Path = ("environment_parameters", name, "curriculum")
        if not lessons:
            message = "it has no lesson: give one, or a number or a sampler in its place"
            problems.append(Problem(place, message))
        for number, lesson in enumerate(lessons[:-1]):
            criteria = lesson.completion_criteria
            if criteria is not None:
                here = (*place, number, "completion_criteria")
                problems += [problem.within(here) for problem in _endless(options, criteria)]
    return [problem.located(options.place) for problem in problems]


def _endless(options: RunOptions, criteria: CompletionCriteriaSettings) -> Iterator[Problem]:
    """Why a lesson with these criteria would never end; paths begin at the criteria."""
    unknown = unknown_behavior(options, criteria.behavior, "the lesson would never end")
    if unknown is not None:
        yield Problem(("behavior",), unknown)
    settings = options.behaviors.get(criteria.behavior, options.default_settings)
    if criteria.measure is MeasureType.ELO and settings is not None and settings.self_play is None:
        yield Problem(
            ("measure",),
            f"found Elo, the rating of self-play; {criteria.behavior} has no section self_play, and so no "
            "rating: the lesson would never end. Measure reward or progress",
        )
    if criteria.measure is MeasureType.PROGRESS and settings is not None and settings.endless:
        yield Problem(
            ("measure",),
            f"found progress, the part of max_steps that is done; {criteria.behavior}, with max_steps -1, is "
            "trained until it is stopped: the lesson would never end. Measure reward",
        )
    elif criteria.measure is MeasureType.PROGRESS and criteria.threshold >= 1:
        yield Problem(
            ("threshold",),
            f"found {criteria.threshold}; the measure, the part of max_steps that is done, must be above it, "
            "which is when the training is over: the lessons after it would never begin. Give less than 1",
        )


WATCHING = ("keep_best", "stop_at_reward", "write_video")
"""Built-in callbacks that may watch one behavior alone."""


def _idle_callbacks(options: RunOptions) -> Iterator[Problem]:
    """Callbacks that are named, and would wait for what never comes."""
    for index, (name, arguments) in enumerate(map(choice, options.callbacks)):
        if name not in WATCHING:
            continue
        needs_tests = name == "write_video" or arguments.get("evaluation") is True
        kind, path = READY[name].rpartition(":")[2], ("callbacks", index)
        if why := idle_callback(options, kind, arguments.get("behavior"), needs_tests):
            yield Problem(path, why).located(options.place)


def idle_callback(options: RunOptions, name: str, watched: Any, needs_tests: bool) -> str | None:
    """What a callback, of which `name` is told, would wait for in vain; None if it may have an effect.

    Args:
        options: of the run.
        name: the callback's.
        watched: the behavior that it watches; None for any.
        needs_tests: it waits for evaluations.
    """
    if isinstance(watched, str) and watched:
        if unknown := unknown_behavior(options, watched, f"{name} would never see it"):
            return f"behavior: {unknown}"
        settings = [options.behaviors.get(watched, options.default_settings)]
    else:
        settings = [*options.behaviors.values(), options.default_settings]
    tested = any(one is not None and one.tested for one in settings)
    if needs_tests and not tested and not options.checkpoint_settings.inference:
        return f"{name} waits for evaluations, and there are none: set test_frequency"
    return None


def unknown_behavior(options: RunOptions, name: str, so: str) -> str | None:
    """What is wrong with the name of a behavior, and `so` what; None if it is listed, or may still appear."""
    if name in options.behaviors:
        return None
    plain = name.partition("?")[0]
    if plain != name:
        return f"found {name}; a behavior's teams are measured together: write {plain}"
    if options.default_settings is not None or options.file is None:
        return None
    where = f"is no behavior of this file (listed: {', '.join(options.behaviors) or 'none'})"
    hint = did_you_mean(name, options.behaviors)
    return f"found {name}, which {where}: {so}.{hint}"
