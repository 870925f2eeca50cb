"""What ML-Agents' configuration can ask for and this version does not do."""

from __future__ import annotations

from collections.abc import Iterator

from .behavior import TrainerSettings
from .errors import Problem, TrainerConfigError
from .options import RunOptions
from .registry import trainer_types


def require_support(options: RunOptions) -> None:
    """Refuse a run that would leave something undone that its configuration asks for.

    Raises:
        TrainerConfigError: naming each such key.
    """
    problems = [
        Problem(f"behaviors.{name}.{path}", message)
        for name, settings in options.behaviors.items()
        for path, message in _unsupported(settings)
    ]
    if options.default_settings is not None and not options.behaviors:
        problems += [
            Problem(f"default_settings.{path}", message)
            for path, message in _unsupported(options.default_settings)
        ]
    problems += [
        Problem(
            f"environment_parameters.{name}.curriculum",
            f"has {len(parameter.curriculum)} lessons, which this version cannot move between: keep one of them",
        )
        for name, parameter in (options.environment_parameters or {}).items()
        if len(parameter.curriculum) > 1
    ]
    if problems:
        raise TrainerConfigError(problems)


def _unsupported(settings: TrainerSettings) -> Iterator[tuple[str, str]]:
    available = [name for name, kind in trainer_types.items() if kind.available]
    if settings.trainer_type not in available:
        yield "trainer_type", f"found {settings.trainer_type}; this version trains {', '.join(available)}"
    for signal in settings.reward_signals:
        if signal != "extrinsic":
            yield f"reward_signals.{signal}", "this version has the signal extrinsic alone: remove this one"
    if settings.self_play is not None:
        yield "self_play", "this version has no self-play: remove this section"
    if settings.behavioral_cloning is not None:
        yield "behavioral_cloning", "this version does not learn from demonstrations: remove this section"
    if settings.network_settings.memory is not None:
        yield "network_settings.memory", "this version has no recurrent networks: remove this section"
