"""Makes a BehaviorSpec of brain parameters and an agent's first observations."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from mlagents_envs.base_env import (
    ActionSpec,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)
from numpy.typing import NDArray

from ..errors import ObservationError, WireError
from ..images import Images
from ..utils.sizes import too_many_actions, too_many_sensors
from .images import MOST_PIXELS, count_channels, holds_bytes, png_size
from .messages import AgentInfoProto, BrainParametersProto, ObservationProto

_UNSPECIFIED = DimensionProperty.UNSPECIFIED
_NONE = DimensionProperty.NONE
_SLIDING = DimensionProperty.TRANSLATIONAL_EQUIVARIANCE
_CHANNELS_FIRST = (_NONE, _SLIDING, _SLIDING)
_CHANNELS_LAST = (_SLIDING, _SLIDING, _NONE)
_MOST_DIMENSIONS = 16
_MOST_NUMBERS = 1 << 28  # of one agent's observation: a gigabyte


@dataclass(frozen=True, slots=True)
class SensorFormat:
    """One observation of a behavior: as the engine sends it, and as the decoder returns it."""

    spec: ObservationSpec
    """The specification of what is returned: images are channels first."""
    sent_shape: tuple[int, ...]
    """The observation's shape as the engine sends it."""
    size: int
    """How many numbers an agent's observation has."""
    channels_last: bool
    dtype: type[np.float32 | np.uint8] = np.float32
    """The dtype of the array that is returned."""

    @property
    def visual(self) -> bool:
        """Whether the observation is an image."""
        return len(self.sent_shape) == 3

    def first(self, values: NDArray[Any], *agents: int) -> NDArray[Any]:
        """Bring values as sent, [*agents, size], into the shape and order in which they are returned."""
        values = values.reshape((*agents, *self.sent_shape))
        return np.moveaxis(values, -1, -3) if self.channels_last else values


@dataclass(frozen=True, slots=True)
class BehaviorFormat:
    """A behavior's specification, and how its observations are sent."""

    spec: BehaviorSpec
    sensors: tuple[SensorFormat, ...]
    compressed: bool
    """Whether the first agent sent compressed images, so that no two agents' bytes will look alike."""


def describe_behavior(
    brain: BrainParametersProto, first_agent: AgentInfoProto, images: Images = "float32"
) -> BehaviorFormat:
    """The description of a behavior, from its parameters and the first agent that reports.

    Args:
        brain: The parameters.
        first_agent: Its observations describe those of all.
        images: The type in which compressed images are returned. Those in which channels are averaged (gray
            ones) are float32 in any case: a mean is not a byte.

    Raises:
        WireError: Sizes, types or shapes are impossible. The message names the observation.
    """
    if reason := too_many_sensors(len(first_agent.observations)):
        raise ObservationError(reason)
    sensors = tuple(
        _sensor(f"observation {index} ({proto.name!r}) of agent {first_agent.id}", proto, images)
        for index, proto in enumerate(first_agent.observations)
    )
    return BehaviorFormat(
        BehaviorSpec([sensor.spec for sensor in sensors], action_spec(brain)),
        sensors,
        any(proto.compression_type for proto in first_agent.observations),
    )


def survives(sensor: ObservationSpec) -> bool:
    """Whether an observation that is sent uncompressed under this description is returned under the same."""
    return len(sensor.shape) != 3 or not _is_channels_last(sensor.shape, sensor.dimension_property, b"")


def action_spec(brain: BrainParametersProto) -> ActionSpec:
    """The actions that a behavior takes. Raises WireError when their sizes are impossible."""
    proto = brain.action_spec
    if proto.num_continuous_actions or proto.num_discrete_actions:
        continuous, branches = proto.num_continuous_actions, tuple(proto.discrete_branch_sizes)
    else:  # an engine from before hybrid actions
        sizes = tuple(brain.vector_action_size_deprecated)
        is_continuous = brain.vector_action_space_type_deprecated == 1
        continuous, branches = (sum(sizes[:1]), ()) if is_continuous else (0, sizes)
    if continuous < 0 or min(branches, default=1) < 1:
        raise WireError(
            f"impossible action sizes: {continuous} continuous, discrete branches {list(branches)[:20]}"
        )
    if reason := too_many_actions(continuous, sum(branches), len(branches)):
        raise WireError(f"impossible action sizes: {reason}")
    return ActionSpec(continuous, branches)


def _sensor(label: str, proto: ObservationProto, images: Images) -> SensorFormat:
    shape = tuple(proto.shape)
    try:
        kind = ObservationType(proto.observation_type)
        properties = tuple(map(DimensionProperty, proto.dimension_properties)) or (_UNSPECIFIED,) * len(shape)
    except ValueError as error:
        raise ObservationError(f"{label}: {error}") from error
    if not _has_numbers_of(shape, proto):
        raise ObservationError(
            f"{label}: the shape {shape} is impossible with {len(proto.float_data.data)} numbers and "
            f"{len(proto.compressed_data)} bytes of pictures of size {png_size(proto.compressed_data)}"
        )
    spec = ObservationSpec(shape, properties, kind, proto.name)
    sensor = SensorFormat(spec, shape, math.prod(shape), False)
    if len(shape) == 3 and _is_channels_last(shape, properties, proto.compressed_data):
        spec = ObservationSpec(_channels_first(shape), _channels_first(properties), kind, proto.name)
        sensor = replace(sensor, spec=spec, channels_last=True)
    mapping, channels = proto.compressed_channel_mapping, sensor.spec.shape[0] if shape else 0
    if images == "uint8" and proto.compression_type and holds_bytes(proto.compressed_data, mapping, channels):
        sensor = replace(sensor, dtype=np.uint8)
    return sensor


def _has_numbers_of(shape: tuple[int, ...], proto: ObservationProto) -> bool:
    """Whether an observation can be of the shape that it claims.

    Memory is allocated by the shape before the values are read: a few damaged bytes must not claim
    gigabytes.
    """
    if len(shape) > _MOST_DIMENSIONS or min(shape, default=0) < 0:
        return False
    if math.prod(max(1, length) for length in shape) > _MOST_NUMBERS:
        return False
    if proto.compression_type:
        if math.prod(shape) > MOST_PIXELS:
            return False
        size, channels = png_size(proto.compressed_data), count_channels(proto.compressed_data)
        return len(shape) == 3 and (
            (shape[1:] == size and shape[0] <= channels) or (shape[:2] == size and shape[2] <= channels)
        )
    return len(proto.float_data.data) == math.prod(shape)


def _channels_first(values: tuple) -> tuple:  # type: ignore[type-arg]
    """Reorder (height, width, channels) to (channels, height, width); leave anything else as it is."""
    return (values[2], values[0], values[1]) if len(values) == 3 else values


def _is_channels_last(
    shape: tuple[int, ...], properties: tuple[DimensionProperty, ...], compressed: bytes
) -> bool:
    """Whether an image's shape is (height, width, channels), as C# packages up to 2.x send it.

    The API version does not say. The dimension properties do, where they are set; else a compressed image's
    own size. Where there is none, or it fits both layouts, the smallest dimension is the channels.
    """
    if properties in (_CHANNELS_FIRST, _CHANNELS_LAST):
        return properties == _CHANNELS_LAST
    if any(properties):
        return False
    size = png_size(compressed)
    if size is not None and (shape[1:] == size) != (shape[:2] == size):
        return shape[:2] == size
    return shape[2] < min(shape[:2]) and shape[0] > min(shape[1:])
