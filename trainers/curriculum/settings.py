"""Environment parameters: their samplers, and the lessons that change them."""

from __future__ import annotations

import itertools
from enum import Enum
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from ..seeds import seed_of
from ..settings.base import Settings, refuse
from ..settings.nearest import nearest
from ..settings.notes import note
from ..settings.values import Flag, Integer, Number, Text
from .samplers import Sampler, SamplerForm, read_sampler


class MeasureType(str, Enum):
    """What tells that a lesson is learned."""

    REWARD = "reward"
    PROGRESS = "progress"
    ELO = "Elo"
    """As ML-Agents' documentation names it; its code does not know it."""


class CompletionCriteriaSettings(Settings):
    """When a lesson is over."""

    behavior: Text
    """The behaviour whose training is measured."""
    measure: MeasureType = MeasureType.REWARD
    """reward: the mean return of its last episodes; progress: the part of max_steps that is done; Elo: the
    rating that it has reached by self_play."""
    min_lesson_length: Integer = Field(default=0, ge=0)
    """Episodes that must have ended in this lesson before anything is measured; the reward is their mean."""
    signal_smoothing: Flag = True
    """Mix a quarter of the previous measure of the reward into the new one, at every look."""
    threshold: Number = 0.0
    """The lesson is over when the measure is above this."""
    require_reset: Flag = False
    """Reset the environments when the lesson is over, instead of waiting for their episodes' ends."""

    @model_validator(mode="after")
    def _possible(self) -> CompletionCriteriaSettings:
        if self.measure is MeasureType.PROGRESS and not 0 <= self.threshold <= 1:
            limit = "greater than 1" if self.threshold > 1 else "negative"
            raise refuse(
                type(self).__name__,
                f"found {self.threshold}; threshold for next lesson cannot be {limit} when the measure is "
                "progress",
                "threshold",
                value=self.threshold,
            )
        return self


class Lesson(Settings):
    """A value of an environment parameter, and when to go on to the next."""

    value: Sampler
    """A number or a sampler."""
    name: Text
    """What the lesson is called in messages."""
    completion_criteria: CompletionCriteriaSettings | None = None
    """When the next lesson begins. All lessons but the last need them."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, the sampler as the YAML writes it."""
        return {**super().as_dict(), "value": self.value.as_sampler()}


class EnvironmentParameterSettings(Settings):
    """One environment parameter: its lessons; a single one if it is no curriculum."""

    curriculum: list[Lesson]
    """The lessons, in order."""


SAMPLER_KEYS = frozenset(SamplerForm.model_fields)


def _parameter(value: Any, info: ValidationInfo) -> Any:
    """A number or a sampler as a curriculum of one lesson, still without a name."""
    if isinstance(value, EnvironmentParameterSettings):
        return value
    meant = isinstance(value, dict) and not SAMPLER_KEYS.intersection(value)
    if meant and (not value or any(nearest(str(key), ["curriculum"]) for key in value)):
        return value
    return EnvironmentParameterSettings(curriculum=[Lesson(value=read_sampler(value, info), name="")])


def _lessons(parameters: dict[str, EnvironmentParameterSettings], info: ValidationInfo) -> Any:
    """Check each parameter's lessons as a sequence, and name those that are no curriculum."""
    for name, parameter in parameters.items():
        for number, lesson in enumerate(parameter.curriculum):
            lesson.name = lesson.name or name
            last = number == len(parameter.curriculum) - 1
            if last and lesson.completion_criteria is not None:
                note(
                    info,
                    f"Your final lesson definition contains completion_criteria for {name}. "
                    "It will be ignored.",
                )
            elif not last and lesson.completion_criteria is None:
                raise refuse(
                    "Lesson",
                    f"a non-terminal lesson does not have a completion_criteria for {name}: lesson "
                    f"{lesson.name!r} would never end. Add completion_criteria: behavior, threshold.",
                    *(name, "curriculum", number),
                )
    return parameters


EnvironmentParameters = Annotated[
    dict[Text, Annotated[EnvironmentParameterSettings, BeforeValidator(_parameter)]], AfterValidator(_lessons)
]
"""A field that holds environment parameters by their names."""


def with_seeds(parameters: EnvironmentParameters, run_seed: int) -> EnvironmentParameters:
    """A copy in which every sampler has a seed: those without get run_seed, run_seed + 1, ... in order."""
    numbers = itertools.count()
    copy = {name: parameter.model_copy(deep=True) for name, parameter in parameters.items()}
    for parameter in copy.values():
        for lesson in parameter.curriculum:
            if lesson.value.seed == -1:
                lesson.value.seed = seed_of(run_seed, next(numbers))
    return copy
