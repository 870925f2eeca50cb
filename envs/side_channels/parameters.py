"""Environment parameters at the environment's end: what the trainer has set, and the values drawn from it."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from mlagents_envs.exception import UnitySideChannelException

from .environment_parameters import EnvironmentParametersChannel
from .manager import SideChannelManager
from .messages import IncomingMessage
from .side_channel import SideChannel

_Types = EnvironmentParametersChannel.EnvironmentDataTypes
_Samplers = EnvironmentParametersChannel.SamplerTypes


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution from which a parameter's values are drawn; a `Sampler`, so that it can be passed on."""

    kind: EnvironmentParametersChannel.SamplerTypes
    numbers: tuple[float, ...]
    """Minimum and maximum; or mean and standard deviation; or the bounds of all intervals."""
    seed: int

    @classmethod
    def read(cls, key: str, msg: IncomingMessage) -> Distribution:
        """Read the distribution of the parameter `key` from the trainer's message.

        Raises:
            UnitySideChannelException: The message is cut short, or of a kind that is not known.
        """
        seed, kind = msg.read_int32(), msg.read_int32()
        if kind in (_Samplers.UNIFORM, _Samplers.GAUSSIAN):
            return cls(_Samplers(kind), _without_signs_of_zero(msg.read_float32(), msg.read_float32()), seed)
        if kind != _Samplers.MULTIRANGEUNIFORM:
            raise UnitySideChannelException(
                f"The environment parameter {key!r} came with the sampler {kind}; known are 0 (uniform), "
                "1 (gaussian) and 2 (multirangeuniform)."
            )
        numbers = msg.read_float32_list()
        if not numbers or len(numbers) % 2:
            raise UnitySideChannelException(
                f"The environment parameter {key!r} came with the intervals {numbers}; they must be pairs "
                "of a minimum and a maximum, at least one."
            )
        return cls(_Samplers.MULTIRANGEUNIFORM, _without_signs_of_zero(*numbers), seed)

    def apply(self, key: str, env_channel: EnvironmentParametersChannel) -> None:
        """Set the parameter `key` to this distribution."""
        if self.kind == _Samplers.MULTIRANGEUNIFORM:
            intervals = list(zip(self.numbers[::2], self.numbers[1::2]))
            env_channel.set_multirangeuniform_sampler_parameters(key, intervals, self.seed)
            return
        first, second = self.numbers
        if self.kind == _Samplers.GAUSSIAN:
            env_channel.set_gaussian_sampler_parameters(key, first, second, self.seed)
        else:
            env_channel.set_uniform_sampler_parameters(key, first, second, self.seed)

    def generator(self, *more: int) -> np.random.Generator:
        """The random numbers for its values, by its seed and further numbers of 32 bits."""
        return np.random.default_rng([number & 0xFFFFFFFF for number in (self.seed, *more)])

    def draw(self, random: np.random.Generator) -> float:
        """Draw a value."""
        if self.kind == _Samplers.MULTIRANGEUNIFORM:
            return _from_intervals(random, np.array(self.numbers, dtype=float).reshape(-1, 2))
        first, second = self.numbers
        return float((random.normal if self.kind == _Samplers.GAUSSIAN else random.uniform)(first, second))


def _without_signs_of_zero(*numbers: float) -> tuple[float, ...]:
    """The numbers with 0 for -0, from which NumPy refuses to draw: it takes 0 to -0 for a negative range."""
    return tuple(number + 0.0 for number in numbers)


def _from_intervals(random: np.random.Generator, bounds: np.ndarray) -> float:
    """A random number, uniform over several intervals [k, 2]: a longer one is sampled more often."""
    lengths = bounds[:, 1] - bounds[:, 0]
    ends = lengths.cumsum()
    at = random.uniform(0, ends[-1])
    k = min(int(np.searchsorted(ends, at, side="right")), len(bounds) - 1)
    return float(bounds[k, 1] - (ends[k] - at))


class Parameters(SideChannel):
    """The environment parameters that the trainer set; `get` draws from distributions, as Unity does."""

    def __init__(self) -> None:
        super().__init__(uuid.UUID("534c891e-810f-11ea-a9d0-822485860400"))
        self.values: dict[str, float | Distribution] = {}
        """What each parameter is set to."""
        self._random: dict[str, np.random.Generator] = {}
        """The random numbers of those that are distributions."""
        self.revision = 0
        """A number that grows with every message, for a world that applies parameters at once to compare."""

    @property
    def sampled(self) -> Collection[str]:
        """The parameters that are distributions."""
        return self._random.keys()

    def get(self, key: str, default: float) -> float:
        """The parameter's value, or `default` if the trainer has not set it."""
        value = self.values.get(key, default)
        return value.draw(self._random[key]) if isinstance(value, Distribution) else value

    def set(self, key: str, value: float | Distribution) -> None:
        """Set a parameter to a number or a distribution."""
        self.values[key] = value
        self._random.pop(key, None)
        if isinstance(value, Distribution):
            self._random[key] = value.generator()
        self.revision += 1

    def take(self, parameters: Mapping[str, object]) -> None:
        """Set parameters that a script or a trainer has in this process, exactly as if they were sent.

        Raises:
            UnitySideChannelException: A value is neither a number nor a `Sampler`.
        """
        channel = EnvironmentParametersChannel()
        channel.set_parameters(parameters)
        SideChannelManager([self]).process(SideChannelManager([channel]).generate())

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Read one parameter from the trainer's message.

        Raises:
            UnitySideChannelException: The message is cut short, or of a kind that is not known.
        """
        key = msg.read_string()
        kind = msg.read_int32()
        if kind == _Types.FLOAT:
            self.set(key, msg.read_float32())
        elif kind == _Types.SAMPLER:
            self.set(key, Distribution.read(key, msg))
        else:
            raise UnitySideChannelException(
                f"The environment parameter {key!r} came as type {kind}; known are 0 (float) and 1 (sampler)."
            )
