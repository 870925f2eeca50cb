"""Environment parameters that training changes, such as a ball's mass."""

import uuid
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Protocol, SupportsFloat, runtime_checkable

from mlagents_envs.exception import UnitySideChannelException

from .messages import OutgoingMessage
from .side_channel import OutgoingSideChannel


@runtime_checkable
class Sampler(Protocol):
    """A distribution from which the engine samples a parameter."""

    def apply(self, key: str, env_channel: "EnvironmentParametersChannel") -> None:
        """Set the parameter `key` to this distribution."""


class EnvironmentParametersChannel(OutgoingSideChannel):
    """Sets parameters that the engine's code reads, each to a number or to a distribution.

    The engine samples a distribution whenever its code reads the parameter.
    """

    class EnvironmentDataTypes(IntEnum):
        """What follows the parameter's name."""

        FLOAT = 0
        SAMPLER = 1

    class SamplerTypes(IntEnum):
        """Which distribution follows the seed."""

        UNIFORM = 0
        GAUSSIAN = 1
        MULTIRANGEUNIFORM = 2

    def __init__(self) -> None:
        super().__init__(uuid.UUID("534c891e-810f-11ea-a9d0-822485860400"))

    def set_parameters(self, parameters: Mapping[str, object]) -> None:
        """Set several parameters, each to a number or to a distribution.

        Raises:
            UnitySideChannelException: A value is neither a number nor a `Sampler`.
        """
        for key, value in parameters.items():
            if isinstance(value, Sampler):
                value.apply(key, self)
            elif isinstance(value, SupportsFloat):
                self.set_float_parameter(key, float(value))
            else:
                raise UnitySideChannelException(
                    f"The parameter {key!r} is {value!r}, which is neither a number nor a sampler."
                )

    def set_float_parameter(self, key: str, value: float) -> None:
        """Set a parameter to a number."""
        message = self._begin(key, self.EnvironmentDataTypes.FLOAT)
        message.write_float32(value)
        self.queue_setting(key, message)

    def set_uniform_sampler_parameters(self, key: str, min_value: float, max_value: float, seed: int) -> None:
        """Sample a parameter uniformly from `min_value` to `max_value`."""
        message = self._begin_sampler(key, seed, self.SamplerTypes.UNIFORM)
        message.write_float32(min_value)
        message.write_float32(max_value)
        self.queue_setting(key, message)

    def set_gaussian_sampler_parameters(self, key: str, mean: float, st_dev: float, seed: int) -> None:
        """Sample a parameter from a normal distribution."""
        message = self._begin_sampler(key, seed, self.SamplerTypes.GAUSSIAN)
        message.write_float32(mean)
        message.write_float32(st_dev)
        self.queue_setting(key, message)

    def set_multirangeuniform_sampler_parameters(
        self, key: str, intervals: Sequence[Sequence[float]], seed: int
    ) -> None:
        """Sample a parameter uniformly from several intervals, each [min, max].

        Raises:
            UnitySideChannelException: An interval does not have two numbers.
        """
        for interval in intervals:
            if len(interval) != 2:
                raise UnitySideChannelException(
                    f"The intervals of the parameter {key!r} are pairs of a minimum and a maximum, but one "
                    f"of them is {list(interval)}."
                )
        message = self._begin_sampler(key, seed, self.SamplerTypes.MULTIRANGEUNIFORM)
        message.write_float32_list([bound for interval in intervals for bound in interval])
        self.queue_setting(key, message)

    def _begin(self, key: str, kind: EnvironmentDataTypes) -> OutgoingMessage:
        message = OutgoingMessage()
        message.write_string(key)
        message.write_int32(kind)
        return message

    def _begin_sampler(self, key: str, seed: int, kind: SamplerTypes) -> OutgoingMessage:
        message = self._begin(key, self.EnvironmentDataTypes.SAMPLER)
        message.write_int32(seed)
        message.write_int32(kind)
        return message
