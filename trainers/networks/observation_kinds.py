"""The kinds of observations, by which encoders are chosen, and the error for all others."""

from __future__ import annotations

from enum import Enum

from mlagents_envs.base_env import DimensionProperty, ObservationSpec


class ObservationKind(Enum):
    """The kind of an observation, which decides its encoder."""

    VECTOR = "vector"
    VISUAL = "visual"
    VARIABLE_LENGTH = "variable length"
    OTHER = "other"
    """Only a custom network can read it."""


_NONE, _UNSPECIFIED = DimensionProperty.NONE, DimensionProperty.UNSPECIFIED
_TRANSLATIONAL = DimensionProperty.TRANSLATIONAL_EQUIVARIANCE
_KINDS: dict[tuple[DimensionProperty, ...], ObservationKind] = {
    (_NONE,): ObservationKind.VECTOR,
    (_UNSPECIFIED,): ObservationKind.VECTOR,
    (_NONE, _TRANSLATIONAL, _TRANSLATIONAL): ObservationKind.VISUAL,
    (_UNSPECIFIED,) * 3: ObservationKind.VISUAL,
    (DimensionProperty.VARIABLE_SIZE, _NONE): ObservationKind.VARIABLE_LENGTH,
}


def observation_kind(spec: ObservationSpec, any_shape: bool = False) -> ObservationKind:
    """The kind of an observation, from its number of dimensions and their properties.

    With `any_shape` OTHER is one of them.

    Raises:
        UnsupportedObservationError: no encoder takes such dimensions; the message names the observation.
    """
    kind = _KINDS.get(tuple(spec.dimension_property))
    if kind is None or len(spec.shape) != len(spec.dimension_property):
        if any_shape:
            return ObservationKind.OTHER
        properties = ", ".join(f"{p!s}".removeprefix("DimensionProperty.") for p in spec.dimension_property)
        known = "; ".join(
            f"{kind.value}: ({', '.join(str(p.name) for p in dimensions)})"
            for dimensions, kind in _KINDS.items()
        )
        raise UnsupportedObservationError(
            f"Observation '{spec.name}' of shape {tuple(spec.shape)} has the dimension properties "
            f"({properties}). What can be learned from is {known}. Change the sensor's observation spec."
        )
    return kind


class UnsupportedObservationError(ValueError):
    """An observation that no encoder takes."""
