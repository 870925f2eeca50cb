"""What kinds of environments Python has, and which one an object is."""

from __future__ import annotations

from enum import Enum
from typing import Any

from mlagents_envs.base_env import BaseEnv
from mlagents_envs.exception import UnityEnvironmentException

from .game_calls import shortened
from .pettingzoo_source import takes_turns

_GAME = ("reset", "step", "close", "observation_space", "action_space")
"""What both Gymnasium's and PettingZoo's environments have."""


class Kind(Enum):
    """Of an environment; the values are how messages call it."""

    BASE_ENV = "a BaseEnv"
    GYMNASIUM = "an environment of Gymnasium"
    PARALLEL = "a parallel environment of PettingZoo"
    TURNS = "an environment of PettingZoo whose agents take turns"


def kind_of(path: str, env: Any) -> Kind:
    """Which kind of environment a function gave.

    Raises:
        UnityEnvironmentException: It is none; `path` begins the message.
    """
    if isinstance(env, BaseEnv):
        return Kind.BASE_ENV
    other = _what_else(env)
    if other:
        raise UnityEnvironmentException(
            f"{path}: the function gave {other}. Expected a BaseEnv, or an environment of Gymnasium or "
            "PettingZoo."
        )
    if takes_turns(env):
        return Kind.TURNS
    # PettingZoo's spaces are asked for agent by agent, Gymnasium's are there.
    return Kind.PARALLEL if callable(env.observation_space) else Kind.GYMNASIUM


def _what_else(env: Any) -> str:
    """How to call what is no environment; nothing if it is one."""
    if isinstance(env, type):
        return f"the class {env.__name__}, and not an environment of it: call it"
    if any(each.__module__.partition(".")[0] == "gym" for each in type(env).__mro__):
        return (
            f"{type(env).__name__}, an environment of the old package gym, which is not maintained: port it "
            "to gymnasium, or wrap it with shimmy's GymV21CompatibilityV0 or GymV26CompatibilityV0"
        )
    if hasattr(env, "single_observation_space"):
        return (
            f"{type(env).__name__}, many environments in one (a VectorEnv): give one of them, and say with "
            "--num-areas how many"
        )
    lacks = [name for name in _GAME if not hasattr(env, name)]
    if len(lacks) == len(_GAME):
        return "nothing (None); perhaps its return is missing" if env is None else _named(env)
    return f"{_named(env)}, which lacks {', '.join(lacks)}" if lacks else ""


def _named(value: Any) -> str:
    return f"{shortened(value)} of the type {type(value).__name__}"
