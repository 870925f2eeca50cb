"""An engine with many agents as a `VecEnv` of Stable-Baselines3."""

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

    Several observations are a Dict with the keys `visual_0`, ..., `set_0`, ..., `vector`: for its
    `MultiInputPolicy`. Infos have `agent_id` and `asks`, and at the end of an episode `terminal_observation`
    and `TimeLimit.truncated`. `env_method("action_masks")` has the masks, as MaskablePPO of sb3-contrib asks.
    """

    def __init__(self, env: UnityVectorEnv) -> None:
        """Wrap.

        Raises:
            UnityGymException: Actions are of both kinds, which Stable-Baselines3 has no policy for.
        """
        if isinstance(env.single_action_space, spaces.Tuple):
            raise UnityGymException(
                "Stable-Baselines3 has no policies for continuous and discrete actions at once: "
                f"{env.single_action_space}."
            )
        self.env = env
        self._masks: NDArray[np.bool_] | None = None
        self._actions: Any = None
        super().__init__(env.num_envs, self._space(env.single_observation_space), env.single_action_space)

    def reset(self) -> Any:
        """Begin all episodes anew; after `seed`, with that of the first slot."""
        seen, infos = self.env.reset(seed=self._seeds[0], options=self._options[0] or None)
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = self._listed(infos)
        return self._keyed(seen)

    def step_async(self, actions: NDArray[Any]) -> None:
        """Say what the agents do."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Let them act: observations, rewards, ends, infos."""
        seen, rewards, terminated, truncated, infos = self.env.step(self._actions)
        ends = terminated | truncated
        told = self._listed(infos)
        for slot in np.flatnonzero(ends):
            told[slot]["terminal_observation"] = self._keyed(infos["final_obs"][slot])
            told[slot]["TimeLimit.truncated"] = bool(truncated[slot])
        return self._keyed(seen), rewards.astype(np.float32), ends, told

    def close(self) -> None:
        """End the engine."""
        self.env.close()

    def action_masks(self) -> NDArray[np.bool_] | None:
        """[n, sizes of all branches] True where an action is allowed now; None without branches."""
        return self._masks

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """What each agent sees, with the render mode `rgb_array`."""
        return self.env.render() or [None] * self.num_envs

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Of the vectorised environment, the same for each slot; masks of each its own.

        Raises:
            AttributeError: There is none.
        """
        slots = list(self._get_indices(indices))
        if attr_name == "action_masks":
            masks = self._masks
            if masks is None:
                raise AttributeError("There are no branches, and so no action_masks.")
            return [lambda slot=slot: masks[slot] for slot in slots]
        return [getattr(self.env, attr_name)] * len(slots)

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Of the vectorised environment, for all slots at once."""
        setattr(self.env, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """What a method gives for each slot."""
        return [method(*method_args, **method_kwargs) for method in self.get_attr(method_name, indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """No slot has wrappers of its own."""
        return [False for _ in self._get_indices(indices)]

    def _listed(self, infos: dict[str, Any]) -> list[dict[str, Any]]:
        masks = infos.get(ACTION_MASK)
        self._masks = None if masks is None else masks.astype(np.bool_)
        told = zip(infos["agent_id"].tolist(), infos["asks"].tolist())
        return [{"agent_id": agent, "asks": asks} for agent, asks in told]

    def _space(self, space: Any) -> Any:
        if not isinstance(space, spaces.Tuple):
            return space
        return spaces.Dict(dict(zip(self.env.observation_keys, space)))

    def _keyed(self, seen: Any) -> Any:
        return dict(zip(self.env.observation_keys, seen)) if isinstance(seen, tuple) else seen


def make_sb3(file_name: str | None = None, num_envs: int | None = None, **options: Any) -> UnityVecEnv:
    """Launch an engine with any number of agents for Stable-Baselines3. Arguments as of `make_vector`."""
    env = make_vector(file_name, num_envs, **options)
    try:
        return UnityVecEnv(env)
    except BaseException:
        env.close()
        raise
