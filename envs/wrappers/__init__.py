"""Engines as environments of Gymnasium and PettingZoo. Imports neither before one of the names is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .lazily import load

if TYPE_CHECKING:
    from .aec import UnityAECEnv
    from .errors import UnityGymException
    from .launching import launch
    from .make import make_aec, make_gym, make_parallel, make_vector
    from .parallel import UnityParallelEnv
    from .parallel import UnityParallelEnv as UnityToPettingZooWrapper
    from .single import UnityToGymWrapper
    from .stable_baselines3 import UnityVecEnv as UnityVecEnv
    from .stable_baselines3 import make_sb3 as make_sb3
    from .vector import UnityVectorEnv

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
"""All but `UnityVecEnv` and `make_sb3`, for which few have what they need: Stable-Baselines3."""

_HOMES = {
    "UnityAECEnv": "aec",
    "UnityGymException": "errors",
    "UnityParallelEnv": "parallel",
    "UnityToGymWrapper": "single",
    "UnityToPettingZooWrapper": "parallel",
    "UnityVecEnv": "stable_baselines3",
    "UnityVectorEnv": "vector",
    "launch": "launching",
    "make_aec": "make",
    "make_gym": "make",
    "make_parallel": "make",
    "make_sb3": "stable_baselines3",
    "make_vector": "make",
}
_OTHER_NAMES = {"UnityToPettingZooWrapper": "UnityParallelEnv"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(load(_HOMES[name]), _OTHER_NAMES.get(name, name))
