"""What ML-Agents' configuration can ask for and this version does not do."""

from __future__ import annotations

from collections.abc import Iterator

from .behavior import TrainerSettings
from .errors import Problem, TrainerConfigError
from .options import RunOptions
from .problems import dotted
from .registry import find_trainer, trainer_types


def require_support(options: RunOptions) -> None:
    """Refuse a run that would leave something undone that its configuration asks for, or that trains nothing.

    Behaviours that the configuration does not list are for `require_trainable`, when they appear.

    Raises:
        TrainerConfigError: naming each such key.
    """
    problems = [
        problem for name, settings in options.behaviors.items() for problem in _problems(name, settings)
    ]
    for name, parameter in (options.environment_parameters or {}).items():
        if len(parameter.curriculum) > 1:
            message = (
                f"has {len(parameter.curriculum)} lessons; this version cannot go through them: keep one"
            )
            problems.append(Problem(f"environment_parameters.{name}.curriculum", message))
    if not problems and not options.trains_something:
        message = "it tells of no behavior to train; it needs a section that begins like `behaviors:`"
        problems.append(Problem("", message, options.file or ""))
    if problems:
        raise TrainerConfigError(problems)


def require_trainable(name: str, settings: TrainerSettings) -> None:
    """Refuse a behaviour whose settings ask for what this version lacks.

    Raises:
        TrainerConfigError: naming each such key.
    """
    problems = _problems(name, settings)
    if problems:
        raise TrainerConfigError(problems)


def _problems(name: str, settings: TrainerSettings) -> list[Problem]:
    return [Problem(dotted(("behaviors", name, *path)), message) for path, message in _unsupported(settings)]


def _unsupported(settings: TrainerSettings) -> Iterator[tuple[tuple[str, ...], str]]:
    trainer = find_trainer(settings.trainer_type)
    if trainer is None or not trainer.available:
        available = [name for name, kind in trainer_types.items() if kind.available]
        yield ("trainer_type",), f"found {settings.trainer_type}; this version trains {', '.join(available)}"
    for signal in settings.reward_signals:
        if signal != "extrinsic":
            yield ("reward_signals", signal), "this version has the signal extrinsic alone: remove this one"
    if settings.self_play is not None:
        yield ("self_play",), "this version has no self-play: remove this section"
    if settings.network_settings.memory is not None and not (trainer and trainer.recurrent):
        recurrent = [name for name, kind in trainer_types.items() if kind.recurrent]
        message = f"this version gives agents a memory with {', '.join(recurrent)} alone: remove this section"
        yield ("network_settings", "memory"), message
    if settings.behavioral_cloning is not None:
        yield ("behavioral_cloning",), "this version does not learn from demonstrations: remove this section"
