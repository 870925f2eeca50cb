"""Validates a sweep before its first run, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...checkpoints.transfer import check_initial_weights
from ...runner.environments import check_environment
from ...runner.preflight import check_demonstrations
from ...settings.command_line import split_path
from ...settings.errors import Problem, TrainerConfigError
from ...settings.models.run import EnvironmentSettings
from ...settings.options import RunOptions
from ...settings.validation import listed_behaviors, require_support
from ...utils.errors import TrainerError, did_you_mean
from .commands import Commands, Values, as_text
from .metric import SweepError
from .settings import SweepSettings
from .space import Dimension, holds_whole_number

MAX_GRID = 10_000
"""More combinations than this are taken for a mistake."""


def make_space(commands: Commands) -> list[Dimension]:
    """The parameters of a sweep with the types of their values.

    Raises:
        TrainerConfigError, SweepError: a key is unknown, or does not accept its values.
    """
    space = [_dimension(commands, key) for key in commands.settings.parameters]
    for one in space:
        _require_whole_bounds(one)
    if commands.settings.sampler == "grid":
        _require_grid(space)
    return space


def check_trials(commands: Commands, space: list[Dimension]) -> None:
    """Reject a sweep with trials that could not be run, by the ends of every range.

    Raises:
        TrainerConfigError, TrainerError, UnityException, SweepError: the error of a run with these values.
    """
    seen: list[EnvironmentSettings] = []
    for values in _corners(space):
        with _named(values):
            options = commands.options(values)
            require_support(options)
            _require_an_end(options)
            _require_behavior(commands.settings, options)
            check_demonstrations(options)
            if options.env_settings not in seen:
                seen.append(options.env_settings)
                _require_environment(commands.settings, options)
                check_initial_weights(options)
    _require_effect(commands, space)


def _dimension(commands: Commands, key: str) -> Dimension:
    parameter = commands.settings.parameters[key]
    path = split_path(key)
    listed = commands.base.behaviors
    if path[0] == "behaviors" and listed and (len(path) < 2 or path[1] not in listed):
        wanted = str(path[1]) if len(path) > 1 else ""
        hint, there = did_you_mean(wanted, listed), ", ".join(listed)
        raise SweepError(f"parameters: {key}: there is no behavior {wanted!r}.{hint} Known: {there}.")
    first = parameter.min if parameter.values is None else parameter.values[0]
    with _named({key: first}):
        whole = holds_whole_number(commands.options({key: first}), path)
    if whole is None:
        numbers = [parameter.min, parameter.max, parameter.step]
        whole = parameter.step is not None and all(n is None or n == int(n) for n in numbers)
    return Dimension(key, parameter, whole)


def _require_whole_bounds(one: Dimension) -> None:
    if not one.whole or one.parameter.values is not None:
        return
    for name in ("min", "max", "step"):
        number = getattr(one.parameter, name)
        if number is not None and number != int(number):
            raise SweepError(
                f"parameters: {one.key}: found {name} {number:g}, expected a whole number, since the key "
                "holds one."
            )


def _require_grid(space: list[Dimension]) -> None:
    count = 1
    for one in space:
        if one.all is None:
            raise SweepError(
                f"parameters: {one.key}: the sampler grid tries all values, but a range without step has "
                "infinitely many: give step, or {values: [...]}, or the sampler tpe or random."
            )
        count *= len(one.all)
    if count > MAX_GRID:
        raise SweepError(f"parameters: the sampler grid would try {count} combinations: use fewer values.")


def _corners(space: list[Dimension]) -> Iterator[dict[str, Any]]:
    """All first values; then each parameter's other ends, one at a time; and all last values."""
    first = {one.key: one.ends[0] for one in space}
    yield first
    for one in space:
        for end in one.ends[1:]:
            yield {**first, one.key: end}
    if len(space) > 1:
        yield {one.key: one.ends[-1] for one in space}


def _require_environment(settings: SweepSettings, options: RunOptions) -> None:
    env = options.env_settings
    if env.env_path is None or env.editor:
        raise SweepError(
            "A sweep starts its environments itself and cannot use an editor: name an executable or "
            "a scene under `env`."
        )
    default = EnvironmentSettings.model_fields["base_port"].default
    if settings.parallel > 1 and env.base_port != default:
        raise SweepError(
            f"{settings.parallel} parallel runs cannot share base_port {env.base_port}: leave it out, and "
            "each finds free ports."
        )
    check_environment(options)


def _require_behavior(settings: SweepSettings, options: RunOptions) -> None:
    """Require that the measured behavior is known, if the configuration lists any."""
    listed = list(options.behaviors)
    if settings.behavior is not None:
        if listed and settings.behavior not in listed and options.default_settings is None:
            hint, there = did_you_mean(settings.behavior, listed), ", ".join(listed)
            raise SweepError(f"behavior: there is no {settings.behavior!r}.{hint} Known: {there}.")
    elif len(listed) > 1:
        raise SweepError(f"behavior: name the one whose {settings.metric} counts: {', '.join(listed)}.")


def _require_an_end(options: RunOptions) -> None:
    endless = [name or "default_settings" for name, one in listed_behaviors(options) if one.endless]
    if endless:
        raise SweepError(
            f"{endless[0]} has max_steps -1, so its trials would never end: set max_steps in the sweep."
        )


def _require_effect(commands: Commands, space: list[Dimension]) -> None:
    """Reject a default setting that every behavior overrides: all its trials would be equal."""
    for one in space:
        if split_path(one.key)[0] != "default_settings" or not commands.base.behaviors:
            continue
        behaviors = [commands.options({one.key: end}).behaviors for end in one.ends[:2]]
        if behaviors[0] == behaviors[1]:
            raise SweepError(
                f"parameters: {one.key} has no effect: every behavior of the configuration overrides it."
            )


@contextmanager
def _named(values: Values) -> Iterator[None]:
    """Add the values to the errors of a trial's configuration."""
    try:
        yield
    except TrainerConfigError as error:
        raise TrainerConfigError([_located(problem) for problem in error.problems]) from None
    except TrainerError as error:
        trial = ", ".join(f"{key}={as_text(value)}" for key, value in values.items())
        raise SweepError(f"A trial with {trial} could not be run: {error}") from error


def _located(problem: Problem) -> Problem:
    """A problem of a --set flag, located at the entry of `parameters` or `set` that it came from."""
    place = problem.place.removeprefix("command line, --set ")
    if place == problem.place:
        return problem
    return Problem(problem.path, problem.message, f"with {place}")
