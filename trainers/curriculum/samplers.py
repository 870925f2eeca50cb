"""How the value of an environment parameter is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationInfo, field_validator, model_validator

from ..settings.base import Settings, refuse
from ..settings.nearest import nearest
from ..settings.values import Text, WireInteger, WireNumber, found, number, wrong

if TYPE_CHECKING:
    from ...envs.side_channels.environment_parameters import EnvironmentParametersChannel


class SamplerSettings(Settings):
    """What every sampler has."""

    sampler_type: ClassVar[str]

    seed: WireInteger = -1
    """Seed of this sampler. -1: made from the run's."""

    def as_sampler(self) -> dict[str, Any]:
        """This sampler as the YAML writes it."""
        return {"sampler_type": self.sampler_type, "sampler_parameters": self.as_dict()}

    def apply(self, key: str, env_channel: EnvironmentParametersChannel) -> None:
        """Tell an environment to draw the parameter `key` like this. A sampler needs a seed before."""
        raise NotImplementedError

    def description(self) -> str:
        """The sampler in words, for messages."""
        raise NotImplementedError


class ConstantSettings(SamplerSettings):
    """Always the same value."""

    sampler_type = "constant"

    value: WireNumber = 0.0
    """The value."""

    def apply(self, key: str, env_channel: EnvironmentParametersChannel) -> None:
        """Tell an environment the value of `key`."""
        env_channel.set_float_parameter(key, self.value)

    def description(self) -> str:
        """The value."""
        return f"Float: value={self.value}"


class UniformSettings(SamplerSettings):
    """Any value of an interval, all equally likely."""

    sampler_type = "uniform"

    min_value: WireNumber = 0.0
    """Lower end."""
    max_value: WireNumber = 1.0
    """Upper end."""

    @model_validator(mode="after")
    def _ascending(self) -> UniformSettings:
        if self.min_value > self.max_value:
            raise refuse(
                type(self).__name__,
                f"found {self.min_value}, but max_value is {self.max_value}: minimum value is greater than "
                "maximum value in uniform sampler",
                "min_value",
                value=self.min_value,
            )
        return self

    def apply(self, key: str, env_channel: EnvironmentParametersChannel) -> None:
        """Tell an environment to draw `key` from the interval."""
        env_channel.set_uniform_sampler_parameters(key, self.min_value, self.max_value, self.seed)

    def description(self) -> str:
        """The interval."""
        return f"Uniform sampler: min={self.min_value}, max={self.max_value}"


class GaussianSettings(SamplerSettings):
    """A normal distribution."""

    sampler_type = "gaussian"

    mean: WireNumber = 1.0
    """Its mean."""
    st_dev: WireNumber = Field(default=1.0, ge=0)
    """Its standard deviation."""

    def apply(self, key: str, env_channel: EnvironmentParametersChannel) -> None:
        """Tell an environment to draw `key` from the distribution."""
        env_channel.set_gaussian_sampler_parameters(key, self.mean, self.st_dev, self.seed)

    def description(self) -> str:
        """Mean and deviation."""
        return f"Gaussian sampler: mean={self.mean}, stddev={self.st_dev}"


class MultiRangeUniformSettings(SamplerSettings):
    """Any value of several intervals; a wide interval is as likely as it is wide."""

    sampler_type = "multirangeuniform"

    intervals: list[tuple[WireNumber, WireNumber]] = Field(default_factory=lambda: [(0.0, 1.0)], min_length=1)
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
        """Tell an environment to draw `key` from the intervals."""
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
            close = nearest(value, SAMPLERS)
            hint = f" Did you mean {close}?" if close else ""
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
        constant = number(value)
    except ValueError:
        raise wrong(f"found {found(value)}, expected {_FORMS}") from None
    return ConstantSettings(value=constant)


Sampler = Annotated[SerializeAsAny[SamplerSettings], BeforeValidator(read_sampler)]
"""A field that holds any sampler."""
