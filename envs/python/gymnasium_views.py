"""What the agents of a Gymnasium environment see, gathered into the arrays of a behaviour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlagents_envs.base_env import ObservationSpec

from ..steps import ObsArray
from .spaces import Sensor


class Views:
    """The newest observation of each copy, one array [copies, *shape] per sensor.

    With several frames, a sensor shows the last ones along its first axis, the oldest first, and zeros before
    an episode, as Unity's StackingSensor does; it is named as that one is, by which a replay knows that its
    frames need to be kept but once.
    """

    def __init__(self, sensors: Sequence[Sensor], copies: int, frames: int = 1) -> None:
        self._sensors = sensors
        self._frames = frames
        self.specs = [stacked(sensor.spec, frames) for sensor in sensors]
        self.now: list[ObsArray] = [
            np.zeros((copies, *spec.shape), sensor.dtype) for spec, sensor in zip(self.specs, sensors)
        ]

    def turn(self) -> None:
        """Begin a step: what `now` held so far belongs to whom it was given."""
        self.now = [self._following(array, sensor) for array, sensor in zip(self.now, self._sensors)]

    def _following(self, array: ObsArray, sensor: Sensor) -> ObsArray:
        """A new array, with the frames that stay visible; the newest is still to be written."""
        new = np.empty_like(array)
        if self._frames > 1:
            size = sensor.spec.shape[0]
            new[:, :-size] = array[:, size:]
        return new

    def see(self, copy: int, observation: Any) -> None:
        """A copy's newest frame.

        Raises:
            ValueError: The observation is not of the space.
        """
        for sensor, array in zip(self._sensors, self.now):
            sensor.read(observation, array[copy, -sensor.spec.shape[0] :])

    def begin(self, copy: int, observation: Any) -> None:
        """The first frame of an episode. Raises as `see`."""
        if self._frames > 1:
            for array in self.now:
                array[copy] = 0
        self.see(copy, observation)

    def of(self, copies: Sequence[int]) -> list[ObsArray]:
        """What these copies see now, [n, *shape] per sensor, in arrays of its own."""
        return [array[copies] for array in self.now]


def stacked(spec: ObservationSpec, frames: int) -> ObservationSpec:
    """The specification of a sensor that shows so many of its observations, one behind another."""
    if frames == 1:
        return spec
    shape = (frames * spec.shape[0], *spec.shape[1:])
    return spec._replace(shape=shape, name=f"StackingSensor_size{frames}_{spec.name}")
