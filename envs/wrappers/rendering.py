"""Rendered frames: what an agent's camera sees, or what the environment draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from mlagents_envs.base_env import BaseEnv, BehaviorSpec
from numpy.typing import NDArray

from ..engines.terms import terms_of
from .agents import SlottedAgents
from .errors import UnityGymException
from .spaces import camera_sensor, to_rgb

RENDER_MODES = ["rgb_array"]


@dataclass(frozen=True, slots=True)
class FrameSource:
    """Where frames come from."""

    sensor: int | None
    """The index of the agent's camera sensor; None: the environment draws itself."""

    def render(self, env: BaseEnv, batch: SlottedAgents, slot: int) -> NDArray[np.uint8]:
        """[height, width, 3] at the last decision request of the agent in a slot."""
        if self.sensor is None:
            drawn: NDArray[np.uint8] = np.asarray(env.draw(), np.uint8)
            return drawn
        return to_rgb(batch.obs[self.sensor][slot])


def check_render_mode(render_mode: str | None, env: BaseEnv, spec: BehaviorSpec) -> FrameSource | None:
    """Choose the source of frames for a render mode; None without one.

    Raises:
        UnityGymException: The mode does not exist, or there is nothing to show.
    """
    if render_mode is None:
        return None
    if render_mode not in RENDER_MODES:
        raise UnityGymException(f"Unknown render mode {render_mode!r}: expected 'rgb_array' or None.")
    if hasattr(env, "draw"):
        return FrameSource(None)
    sensor = camera_sensor(spec.observation_specs)
    if sensor is None:
        camera = terms_of(env).camera
        shapes = ", ".join(f"{each.name} {each.shape}" for each in spec.observation_specs)
        raise UnityGymException(
            "render_mode='rgb_array' needs an image of 1 or 3 channels among the observations, which are "
            f"{shapes}. Leave it out{', or ' * bool(camera)}{camera}."
        )
    return FrameSource(sensor)
