"""Engines as Gymnasium and PettingZoo environments. Imports neither library before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .optional import load

if TYPE_CHECKING:
    from .aec_env import UnityAECEnv
    from .errors import UnityGymException
    from .gym_env import UnityToGymWrapper
    from .launching import launch
    from .make import make_aec, make_gym, make_parallel, make_vector
    from .parallel_env import UnityParallelEnv
    from .parallel_env import UnityParallelEnv as UnityToPettingZooWrapper
    from .sb3_vec_env import UnityVecEnv as UnityVecEnv
    from .sb3_vec_env import make_sb3 as make_sb3
    from .vector_env import UnityVectorEnv

__all__ = [
    "UnityAECEnv",
    "UnityGymException",
    "UnityParallelEnv",
    "UnityToGymWrapper",
    "UnityToPettingZooWrapper",
    "UnityVectorEnv",
    "launch",
    "make_aec",
    "make_gym",
    "make_parallel",
    "make_vector",
]
"""All but `UnityVecEnv` and `make_sb3`, which need Stable-Baselines3."""

_MODULES = {
    "UnityAECEnv": "aec_env",
    "UnityGymException": "errors",
    "UnityParallelEnv": "parallel_env",
    "UnityToGymWrapper": "gym_env",
    "UnityToPettingZooWrapper": "parallel_env",
    "UnityVecEnv": "sb3_vec_env",
    "UnityVectorEnv": "vector_env",
    "launch": "launching",
    "make_aec": "make",
    "make_gym": "make",
    "make_parallel": "make",
    "make_sb3": "sb3_vec_env",
    "make_vector": "make",
}
_ALIASES = {"UnityToPettingZooWrapper": "UnityParallelEnv"}


def __dir__() -> list[str]:
    return sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(load(_MODULES[name]), _ALIASES.get(name, name))
