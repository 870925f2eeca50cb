"""The engine's end of the environment parameters: numbers, and distributions to draw them from."""

import uuid
from collections.abc import Callable

import numpy as np
from mlagents_envs.exception import UnitySideChannelException

from ..side_channels import EnvironmentParametersChannel, IncomingMessage, SideChannel

_Types = EnvironmentParametersChannel.EnvironmentDataTypes
_Samplers = EnvironmentParametersChannel.SamplerTypes


class Parameters(SideChannel):
    """What the trainer has set. A distribution is drawn from at each reading, as in Unity."""

    def __init__(self) -> None:
        super().__init__(uuid.UUID("534c891e-810f-11ea-a9d0-822485860400"))
        self._sources: dict[str, Callable[[], float]] = {}
        self.revision = 0
        """Grows with every message: a world that must follow a parameter at once compares it."""

    def get(self, key: str, default: float) -> float:
        """The parameter's value, or `default` if the trainer has not set it."""
        source = self._sources.get(key)
        return default if source is None else source()

    def set(self, key: str, value: float) -> None:
        """Set a parameter to a number."""
        self._sources[key] = lambda: value
        self.revision += 1

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Take one parameter from the trainer.

        Raises:
            UnitySideChannelException: The message is cut short, or of a kind that is not known.
        """
        key = msg.read_string()
        kind = msg.read_int32()
        if kind == _Types.FLOAT:
            self.set(key, msg.read_float32())
        elif kind == _Types.SAMPLER:
            self._sources[key] = _sampler(key, msg)
            self.revision += 1
        else:
            raise UnitySideChannelException(
                f"The environment parameter {key!r} came as type {kind}; known are 0 (float) and 1 (sampler)."
            )


def _sampler(key: str, msg: IncomingMessage) -> Callable[[], float]:
    random = np.random.default_rng(msg.read_int32() & 0xFFFFFFFF)
    kind = msg.read_int32()
    if kind == _Samplers.UNIFORM:
        low, high = msg.read_float32(), msg.read_float32()
        return lambda: float(random.uniform(low, high))
    if kind == _Samplers.GAUSSIAN:
        mean, deviation = msg.read_float32(), msg.read_float32()
        return lambda: float(random.normal(mean, deviation))
    if kind == _Samplers.MULTIRANGEUNIFORM:
        numbers = msg.read_float32_list()
        if not numbers or len(numbers) % 2:
            raise UnitySideChannelException(
                f"The environment parameter {key!r} came with the intervals {numbers}; they must be pairs "
                "of a minimum and a maximum, at least one."
            )
        bounds = np.array(numbers, dtype=float).reshape(-1, 2)
        return lambda: _from_intervals(random, bounds)
    raise UnitySideChannelException(
        f"The environment parameter {key!r} came with the sampler {kind}; known are 0 (uniform), "
        "1 (gaussian) and 2 (multirangeuniform)."
    )


def _from_intervals(random: np.random.Generator, bounds: np.ndarray) -> float:
    """Evenly from several intervals [k, 2]; a longer one is drawn from more often."""
    lengths = bounds[:, 1] - bounds[:, 0]
    ends = lengths.cumsum()
    at = random.uniform(0, ends[-1])
    k = min(int(np.searchsorted(ends, at, side="right")), len(bounds) - 1)
    return float(bounds[k, 1] - (ends[k] - at))
