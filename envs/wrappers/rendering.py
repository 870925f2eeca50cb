"""Pictures of an engine: what an agent's camera sees, or what the environment draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from mlagents_envs.base_env import BaseEnv, BehaviorSpec
from numpy.typing import NDArray

from .agents import Crew
from .errors import UnityGymException
from .spaces import picture_sensor, shown

RENDER_MODES = ["rgb_array"]


@dataclass(frozen=True, slots=True)
class Picture:
    """Where pictures come from."""

    sensor: int | None
    """An agent's; None: the environment draws itself."""

    def of(self, env: BaseEnv, crew: Crew, slot: int) -> NDArray[np.uint8]:
        """[height, width, 3] as the agent in a slot saw it when it was asked last."""
        if self.sensor is None:
            drawn: NDArray[np.uint8] = np.asarray(env.draw(), np.uint8)
            return drawn
        return shown(crew.obs[self.sensor][slot])


def check_render_mode(render_mode: str | None, env: BaseEnv, spec: BehaviorSpec) -> Picture | None:
    """Where the pictures of a render mode come from; None without one.

    Raises:
        UnityGymException: There is no such mode, or nothing to show.
    """
    if render_mode is None:
        return None
    if render_mode not in RENDER_MODES:
        raise UnityGymException(f"The render mode {render_mode!r} is not known; give 'rgb_array' or None.")
    if hasattr(env, "draw"):
        return Picture(None)
    sensor = picture_sensor(spec.observation_specs)
    if sensor is None:
        shapes = ", ".join(f"{each.name} {each.shape}" for each in spec.observation_specs)
        raise UnityGymException(
            "render_mode='rgb_array' needs a picture of 1 or 3 channels among what the agents see, but they "
            f"see {shapes}. Leave it out, or add a Camera Sensor in Unity."
        )
    return Picture(sensor)
