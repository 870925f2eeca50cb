"""Engines as environments of Gymnasium and PettingZoo. Imports neither before one of the names is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .aec import UnityAECEnv
    from .errors import UnityGymException
    from .launched import launch
    from .make import make_aec, make_gym, make_parallel, make_vector
    from .parallel import UnityParallelEnv
    from .parallel import UnityParallelEnv as UnityToPettingZooWrapper
    from .single import UnityToGymWrapper
    from .stable_baselines3 import UnityVecEnv, make_sb3
    from .vector import UnityVectorEnv

__all__ = [
    "UnityAECEnv",
    "UnityGymException",
    "UnityParallelEnv",
    "UnityToGymWrapper",
    "UnityToPettingZooWrapper",
    "UnityVecEnv",
    "UnityVectorEnv",
    "launch",
    "make_aec",
    "make_gym",
    "make_parallel",
    "make_sb3",
    "make_vector",
]

_HOMES = {
    "UnityAECEnv": "aec",
    "UnityGymException": "errors",
    "UnityParallelEnv": "parallel",
    "UnityToGymWrapper": "single",
    "UnityToPettingZooWrapper": "parallel",
    "UnityVecEnv": "stable_baselines3",
    "UnityVectorEnv": "vector",
    "launch": "launched",
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
    module = import_module(f".{_HOMES[name]}", __name__)
    return getattr(module, _OTHER_NAMES.get(name, name))
