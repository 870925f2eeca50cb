"""Behavior specs. They need no torch."""

from mlagents_envs.base_env import (
    ActionSpec,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)

VECTOR = (DimensionProperty.NONE,)
ENTITIES = (DimensionProperty.VARIABLE_SIZE, DimensionProperty.NONE)
IMAGE = (DimensionProperty.NONE, *[DimensionProperty.TRANSLATIONAL_EQUIVARIANCE] * 2)
DIMENSIONS = {1: VECTOR, 2: ENTITIES, 3: IMAGE}


def sensor(shape, name: str, kind: ObservationType = ObservationType.DEFAULT) -> ObservationSpec:
    """A vector, a set of entities or an image."""
    return ObservationSpec(tuple(shape), DIMENSIONS[len(shape)], kind, name)


def image_spec(channels: int, height: int, width: int) -> ObservationSpec:
    """A camera's."""
    return sensor((channels, height, width), "eye")


def vector_spec(sizes, continuous=0, branches=()) -> BehaviorSpec:
    """A behavior with vector observations of these sizes."""
    sensors = [sensor((size,), f"vec{i}") for i, size in enumerate(sizes)]
    return BehaviorSpec(sensors, ActionSpec(continuous, tuple(branches)))


def spec_of_shapes(shapes, goals=(), continuous=0, branches=()) -> BehaviorSpec:
    """A behavior with vectors, sets of entities and images; `goals` says for each whether it is a goal."""
    kinds = [ObservationType.GOAL_SIGNAL if goal else ObservationType.DEFAULT for goal in goals]
    kinds += [ObservationType.DEFAULT] * (len(shapes) - len(kinds))
    sensors = [sensor(shape, f"obs{i}", kind) for i, (shape, kind) in enumerate(zip(shapes, kinds))]
    return BehaviorSpec(sensors, ActionSpec(continuous, tuple(branches)))
