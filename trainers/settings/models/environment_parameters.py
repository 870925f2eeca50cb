"""Environment parameters: the samplers of their values, and the lessons of a curriculum."""

from __future__ import annotations

import itertools
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializeAsAny,
    StrictFloat,
    ValidationInfo,
    field_validator,
    model_validator,
)

from ...utils.distributed import seed_of
from ...utils.errors import did_you_mean, nearest
from ..base import (
    LARGEST_FLOAT32,
    Flag,
    Integer,
    Number,
    Settings,
    Text,
    WireInteger,
    found,
    number,
    refuse,
    wrong,
)
from ..errors import Problem, note
from ..numerals import spellings

if TYPE_CHECKING:
    from ....envs.side_channels.environment_parameters import EnvironmentParametersChannel


def _value(value: Any) -> float:
    """A finite number; true is 1 and false is 0, as ML-Agents reads them here."""
    return number(int(value) if isinstance(value, bool) else value)


Value = Annotated[StrictFloat, BeforeValidator(_value), Field(ge=-LARGEST_FLOAT32, le=LARGEST_FLOAT32)]
"""A value of an environment parameter, which an engine receives as 32 bits."""


class SamplerSettings(Settings):
    """Settings of every sampler."""

    sampler_type: ClassVar[str]

    seed: WireInteger = -1
    """Seed of this sampler. -1: derived from the run's."""

    def as_sampler(self) -> dict[str, Any]:
        """This sampler as the YAML writes it."""
        return {"sampler_type": self.sampler_type, "sampler_parameters": self.as_dict()}

    def apply(self, key: str, env_channel: EnvironmentParametersChannel) -> None:
        """Make an environment sample the parameter `key` like this. A sampler needs a seed before."""
        raise NotImplementedError

    def description(self) -> str:
        """The sampler in words, for messages."""
        raise NotImplementedError


class ConstantSettings(SamplerSettings):
    """Always the same value."""

    sampler_type = "constant"

    value: Value = 0.0
    """The value."""

    def apply(self, key: str, env_channel: EnvironmentParametersChannel) -> None:
        """Send an environment the value of `key`."""
        env_channel.set_float_parameter(key, self.value)

    def description(self) -> str:
        """The value."""
        return f"Float: value={self.value}"


class UniformSettings(SamplerSettings):
    """Any value of an interval, all equally likely."""

    sampler_type = "uniform"

    min_value: Value = 0.0
    """Lower end."""
    max_value: Value = 1.0
    """Upper end."""

    @model_validator(mode="after")
    def _ascending(self) -> UniformSettings:
        if self.min_value > self.max_value:
            raise self._refusal(
                "min_value",
                f"found {self.min_value}, but max_value is {self.max_value}: minimum value is greater than "
                "maximum value in uniform sampler",
            )
        return self

    def apply(self, key: str, env_channel: EnvironmentParametersChannel) -> None:
        """Make an environment sample `key` from the interval."""
        env_channel.set_uniform_sampler_parameters(key, self.min_value, self.max_value, self.seed)

    def description(self) -> str:
        """The interval."""
        return f"Uniform sampler: min={self.min_value}, max={self.max_value}"


class GaussianSettings(SamplerSettings):
    """A normal distribution."""

    sampler_type = "gaussian"

    mean: Value = 1.0
    """Its mean."""
    st_dev: Value = Field(default=1.0, ge=0)
    """Its standard deviation."""

    def apply(self, key: str, env_channel: EnvironmentParametersChannel) -> None:
        """Make an environment sample `key` from the distribution."""
        env_channel.set_gaussian_sampler_parameters(key, self.mean, self.st_dev, self.seed)

    def description(self) -> str:
        """Mean and deviation."""
        return f"Gaussian sampler: mean={self.mean}, stddev={self.st_dev}"


class MultiRangeUniformSettings(SamplerSettings):
    """Any value of several intervals, which are as likely as they are wide."""

    sampler_type = "multirangeuniform"

    intervals: list[tuple[Value, Value]] = Field(default_factory=lambda: [(0.0, 1.0)], min_length=1)
    """The intervals, as [[lower, upper], ...]."""

    @field_validator("intervals", mode="before")
    @classmethod
    def _pairs(cls, value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise wrong(f"found {found(value)}, expected a list of intervals such as [[7, 10], [15, 20]]")
        for interval in value:
            if not isinstance(interval, (list, tuple)) or len(interval) != 2:
                raise wrong(
                    f"found the interval {found(interval)}, expected a lower and an upper end such as [7, 10]"
                )
        return value

    @field_validator("intervals")
    @classmethod
    def _ascending(cls, value: list[tuple[float, float]]) -> list[tuple[float, float]]:
        for interval in value:
            if interval[0] > interval[1]:
                raise wrong(f"minimum value is greater than maximum value in interval {list(interval)}")
        return value

    def apply(self, key: str, env_channel: EnvironmentParametersChannel) -> None:
        """Make an environment sample `key` from the intervals."""
        env_channel.set_multirangeuniform_sampler_parameters(key, self.intervals, self.seed)

    def description(self) -> str:
        """The intervals."""
        return f"MultiRangeUniform sampler: intervals={self.intervals}"


SAMPLERS: dict[str, type[SamplerSettings]] = {
    model.sampler_type: model
    for model in (ConstantSettings, UniformSettings, GaussianSettings, MultiRangeUniformSettings)
}
"""The samplers, by the names that `sampler_type` takes."""

_FORMS = "a number, or {sampler_type: uniform, sampler_parameters: {min_value: 0.5, max_value: 10}}"


class SamplerForm(Settings):
    """A sampler as the YAML writes it."""

    sampler_type: Text
    """The distribution."""
    sampler_parameters: SerializeAsAny[SamplerSettings]
    """Its parameters; what they are depends on sampler_type. {} for defaults."""

    @field_validator("sampler_type")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in SAMPLERS:
            hint = did_you_mean(value, SAMPLERS)
            raise wrong(f"found {found(value)}, expected one of {', '.join(SAMPLERS)}.{hint}")
        return value

    @field_validator("sampler_parameters", mode="before")
    @classmethod
    def _of_the_type(cls, value: Any, info: ValidationInfo) -> Any:
        kind = SAMPLERS.get(info.data.get("sampler_type", ""))
        return kind.model_validate(value, context=info.context) if kind else ConstantSettings()


def read_sampler(value: Any, info: ValidationInfo) -> Any:
    """A number as a constant sampler, the mapping of a sampler as that sampler."""
    if isinstance(value, SamplerSettings):
        return value
    if isinstance(value, dict):
        return SamplerForm.model_validate(value, context=info.context).sampler_parameters
    try:
        constant = _value(value)
    except ValueError:
        meant = spellings(value, whole=False) if isinstance(value, str) else ""
        hint = f": write {meant}" if meant else ""
        raise wrong(f"found {found(value)}, expected {_FORMS}{hint}") from None
    return ConstantSettings(value=constant)


Sampler = Annotated[SerializeAsAny[SamplerSettings], BeforeValidator(read_sampler)]
"""A field that holds any sampler."""


class MeasureType(str, Enum):
    """The measure of a lesson's completion."""

    REWARD = "reward"
    GROUP_REWARD = "group_reward"
    """Lanista's own: what groups earn, and nothing else."""
    PROGRESS = "progress"
    ELO = "Elo"
    """As ML-Agents' documentation names it; its code does not know it."""


class CompletionCriteriaSettings(Settings):
    """When a lesson is over."""

    behavior: Text
    """The behavior whose training is measured."""
    measure: MeasureType = MeasureType.REWARD
    """reward: the mean return of its last episodes, of groups where these earn rewards, else of agents;
    group_reward: that of groups alone; progress: the part of max_steps that is done; Elo: its rating from
    self_play."""
    min_lesson_length: Integer = Field(default=0, ge=0)
    """Episodes that must have ended in this lesson before anything is measured; the reward is their mean."""
    signal_smoothing: Flag = True
    """Smooth the reward: each time it is measured, a quarter of the previous value is mixed in."""
    threshold: Number = 0.0
    """The lesson is over when the measure is above this."""
    require_reset: Flag = False
    """Reset the environments when the lesson is over, instead of waiting for their episodes' ends."""

    @model_validator(mode="after")
    def _possible(self) -> CompletionCriteriaSettings:
        if self.measure is MeasureType.PROGRESS and not 0 <= self.threshold <= 1:
            limit = "greater than 1" if self.threshold > 1 else "negative"
            message = f"threshold for next lesson cannot be {limit} when the measure is progress"
            raise self._refusal("threshold", f"found {self.threshold}; {message}")
        return self


class Lesson(Settings):
    """A value of an environment parameter, and when the next lesson starts."""

    value: Sampler
    """A number (true is 1, false is 0) or a sampler."""
    name: Text
    """The lesson's name in messages."""
    completion_criteria: CompletionCriteriaSettings | None = None
    """When the next lesson starts. Required for all lessons but the last."""

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
        for index, lesson in enumerate(parameter.curriculum):
            lesson.name = lesson.name or name
            last = index == len(parameter.curriculum) - 1
            if last and lesson.completion_criteria is not None:
                note(
                    info,
                    f"Your final lesson definition contains completion_criteria for {name}. "
                    "It will be ignored.",
                )
            elif not last and lesson.completion_criteria is None:
                message = (
                    f"a non-terminal lesson does not have a completion_criteria for {name}: lesson "
                    f"{lesson.name!r} would never end. Add completion_criteria: behavior, threshold."
                )
                raise refuse("Lesson", Problem((name, "curriculum", index), message))
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
