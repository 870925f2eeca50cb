"""An engine with many agents as a Stable-Baselines3 `VecEnv`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from ..python.action_spaces import ACTION_MASK
from .errors import UnityGymException
from .make import make_vector
from .vector_env import UnityVectorEnv


class UnityVecEnv(VecEnv):  # type: ignore[misc]
    """A `UnityVectorEnv` for Stable-Baselines3.

    Several observations are a Dict with the keys `visual_0`, ..., `set_0`, ..., `vector`, for
    `MultiInputPolicy`. Infos contain `agent_id` and `asks`, and at the end of an episode
    `terminal_observation` and `TimeLimit.truncated`. `env_method("action_masks")` returns the masks, as
    sb3-contrib's MaskablePPO expects.
    """

    def __init__(self, env: UnityVectorEnv) -> None:
        """Wrap a vector environment.

        Raises:
            UnityGymException: There are continuous and discrete actions; Stable-Baselines3 has no policy for
                both at once.
        """
        if isinstance(env.single_action_space, spaces.Tuple):
            raise UnityGymException(
                "Stable-Baselines3 has no policies for continuous and discrete actions at once: "
                f"{env.single_action_space}. flatten_actions=True makes one Box of them."
            )
        self.env = env
        self._masks = _masks_of(env.infos())  # is masking supported? sb3-contrib asks before it resets
        self._actions: Any = None
        super().__init__(env.num_envs, self._space(env.single_observation_space), env.single_action_space)

    def reset(self) -> Any:
        """Restart all episodes; after `seed`, with that of the first slot."""
        observations, infos = self.env.reset(seed=self._seeds[0], options=self._options[0] or None)
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = self._info_dicts(infos)
        return self._as_dict(observations)

    def step_async(self, actions: NDArray[Any]) -> None:
        """Set the agents' actions."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Step the engine: observations, rewards, dones, infos."""
        observations, rewards, terminated, truncated, infos = self.env.step(self._actions)
        dones = terminated | truncated
        dicts = self._info_dicts(infos)
        for slot in np.flatnonzero(dones):
            dicts[slot]["terminal_observation"] = self._as_dict(infos["final_obs"][slot])
            dicts[slot]["TimeLimit.truncated"] = bool(truncated[slot])
        return self._as_dict(observations), rewards.astype(np.float32), dones, dicts

    def close(self) -> None:
        """Close the engine."""
        self.env.close()

    def action_masks(self) -> NDArray[np.bool_] | None:
        """[n, sizes of all branches] True for actions that are allowed now; None without branches."""
        return self._masks

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """The frame of each slot, with the render mode `rgb_array`."""
        return self.env.render() or [None] * self.num_envs

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute of the vector environment, the same for each slot, except `action_masks`.

        Raises:
            AttributeError: There is no such attribute.
        """
        slots = list(self._get_indices(indices))
        if attr_name == "action_masks":
            masks = self._masks
            if masks is None:
                raise AttributeError("There are no branches, and so no action_masks.")
            return [lambda slot=slot: masks[slot] for slot in slots]
        return [getattr(self.env, attr_name)] * len(slots)

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of the vector environment, for all slots at once."""
        setattr(self.env, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method for each slot."""
        return [method(*method_args, **method_kwargs) for method in self.get_attr(method_name, indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """False: slots have no wrappers of their own."""
        return [False for _ in self._get_indices(indices)]

    def _info_dicts(self, infos: dict[str, Any]) -> list[dict[str, Any]]:
        self._masks = _masks_of(infos)
        slots = zip(infos["agent_id"].tolist(), infos["asks"].tolist())
        return [{"agent_id": agent, "asks": asks} for agent, asks in slots]

    def _space(self, space: Any) -> Any:
        if not isinstance(space, spaces.Tuple):
            return space
        return spaces.Dict(dict(zip(self.env.observation_keys, space)))

    def _as_dict(self, observations: Any) -> Any:
        return (
            dict(zip(self.env.observation_keys, observations))
            if isinstance(observations, tuple)
            else observations
        )


def _masks_of(infos: dict[str, Any]) -> NDArray[np.bool_] | None:
    masks = infos.get(ACTION_MASK)
    return None if masks is None else masks.astype(np.bool_)


def make_sb3(file_name: str | None = None, num_envs: int | None = None, **options: Any) -> UnityVecEnv:
    """Launch an engine with any number of agents for Stable-Baselines3. Arguments: see `make_vector`."""
    env = make_vector(file_name, num_envs, **options)
    try:
        return UnityVecEnv(env)
    except BaseException:
        env.close()
        raise
