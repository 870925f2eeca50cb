"""Launch and wrap an engine in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .launching import launch
from .optional import load

if TYPE_CHECKING:
    from .aec_env import UnityAECEnv
    from .gym_env import UnityToGymWrapper
    from .parallel_env import UnityParallelEnv
    from .vector_env import UnityVectorEnv


def make_gym(
    file_name: str | None = None,
    *,
    uint8_visual: bool = False,
    flatten_branched: bool = False,
    flatten_actions: bool = False,
    allow_multiple_obs: bool = False,
    action_space_seed: int | None = None,
    render_mode: str | None = None,
    **engine: Any,
) -> UnityToGymWrapper:
    """Launch an engine with one agent as a `gymnasium.Env`.

    Args:
        file_name: The executable, a scene such as `scene:ball3d?areas=1`, or None for the Unity Editor.
        uint8_visual: See `UnityToGymWrapper`, as for the following.
        flatten_branched: See there.
        flatten_actions: See there.
        allow_multiple_obs: See there.
        action_space_seed: See there.
        render_mode: See there.
        **engine: For `launch`: `seed`, `reseed`, `num_engines`, `time_scale`, `parameters`,
            `side_channels`, and the arguments of `UnityEnvironment`.
    """
    options = {
        "uint8_visual": uint8_visual,
        "flatten_branched": flatten_branched,
        "flatten_actions": flatten_actions,
        "allow_multiple_obs": allow_multiple_obs,
        "action_space_seed": action_space_seed,
        "render_mode": render_mode,
    }
    return _launch_wrapped(load("gym_env").UnityToGymWrapper, options, file_name, engine)  # type: ignore[no-any-return]


def make_vector(
    file_name: str | None = None,
    num_envs: int | None = None,
    *,
    uint8_visual: bool = False,
    flatten_branched: bool = False,
    flatten_actions: bool = False,
    allow_multiple_obs: bool = False,
    add_group_reward: bool = False,
    action_space_seed: int | None = None,
    render_mode: str | None = None,
    **engine: Any,
) -> UnityVectorEnv:
    """Launch an engine with any number of agents as a `gymnasium.vector.VectorEnv`.

    Args:
        file_name: See `make_gym`.
        num_envs: See `UnityVectorEnv`, as for the following.
        uint8_visual: See there.
        flatten_branched: See there.
        flatten_actions: See there.
        allow_multiple_obs: See there.
        add_group_reward: See there.
        action_space_seed: See there.
        render_mode: See there.
        **engine: See `make_gym`.
    """
    options = {
        "num_envs": num_envs,
        "uint8_visual": uint8_visual,
        "flatten_branched": flatten_branched,
        "flatten_actions": flatten_actions,
        "allow_multiple_obs": allow_multiple_obs,
        "add_group_reward": add_group_reward,
        "action_space_seed": action_space_seed,
        "render_mode": render_mode,
    }
    return _launch_wrapped(load("vector_env").UnityVectorEnv, options, file_name, engine)  # type: ignore[no-any-return]


def make_parallel(
    file_name: str | None = None, *, add_group_reward: bool = False, **engine: Any
) -> UnityParallelEnv:
    """Launch an engine as a `pettingzoo.ParallelEnv`. Arguments: see `UnityParallelEnv` and `make_gym`."""
    options = {"seed": engine.get("seed"), "add_group_reward": add_group_reward}
    return _launch_wrapped(load("parallel_env").UnityParallelEnv, options, file_name, engine)  # type: ignore[no-any-return]


def make_aec(file_name: str | None = None, *, add_group_reward: bool = False, **engine: Any) -> UnityAECEnv:
    """Launch an engine as a `pettingzoo.AECEnv`. Arguments: see `UnityAECEnv` and `make_gym`."""
    options = {"seed": engine.get("seed"), "add_group_reward": add_group_reward}
    return _launch_wrapped(load("aec_env").UnityAECEnv, options, file_name, engine)  # type: ignore[no-any-return]


def _launch_wrapped(
    wrapper: Any, options: dict[str, Any], file_name: str | None, engine: dict[str, Any]
) -> Any:
    """Launch and wrap; an engine that cannot be wrapped is closed."""
    env = launch(file_name, **engine)
    try:
        return wrapper(env, **options)
    except BaseException:
        env.close()
        raise
