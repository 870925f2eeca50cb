"""Environments that a function of the user's own makes: `python:module:function`.

What kinds of environments Python has, and which one an object is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from mlagents_envs.base_env import BaseEnv
from mlagents_envs.exception import UnityEnvironmentException

from ..images import Images
from .calls import Copies, seed_of_copy, shortened
from .checked import checked
from .pettingzoo.source import takes_turns
from .source_arguments import Arguments, keyed, name_and_query
from .source_names import PYTHON
from .user_function import find_function

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


PICTURE = "rgb_array"
"""The render mode in which an environment gives its picture away."""

_OWN: Mapping[str, tuple[type, frozenset[Kind]]] = {
    "areas": (int, frozenset(Kind)),
    "stack": (int, frozenset({Kind.GYMNASIUM})),
    "lives": (bool, frozenset({Kind.GYMNASIUM})),
    "state_observation": (bool, frozenset({Kind.PARALLEL})),
    "self_play": (bool, frozenset({Kind.TURNS})),
    "stack_size": (int, frozenset({Kind.TURNS})),
    "max_steps_per_episode": (int, frozenset({Kind.TURNS})),
    "boards": (bool, frozenset({Kind.TURNS})),
}
"""Our own arguments: of what type they are, and for what kinds of environments."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """What is wanted of an environment, beside what its function is given."""

    path: str
    seed: int | None
    copies: int
    own: Arguments
    with_state: bool
    self_play: bool | None
    images: Images


def make(
    path: str,
    seed: int | None,
    arguments: Sequence[str],
    areas: int,
    *,
    with_state: bool = False,
    self_play: bool | None = False,
    images: Images = "float32",
    drawn: bool = False,
) -> BaseEnv:
    """The environment `python:MODULE:FUNCTION`, also with `?key=value&key=value`.

    The function gets the arguments, but for our own that it has no parameter for: those of the sources
    `gymnasium:` and `pettingzoo:`. It also gets `seed`, if it has such a parameter, which differs for every
    copy. It gives a BaseEnv, or an environment of Gymnasium or PettingZoo. Otherwise as `make_source`.

    Raises:
        UnityEnvironmentException: As `make_source`; or the function raises, or gives something else.
        UnsupportedSpaceError: One of its spaces cannot be used.
    """
    function = find_function(path, *_read(path))
    given = {**function.given, **keyed(path, arguments)}
    own = {key: given.pop(key) for key in _OWN if key in given and key not in function.parameters}
    if "areas" in function.parameters and areas > 1:
        given["areas"], areas = areas, 1
    if drawn and function.takes("render_mode"):
        given["render_mode"] = PICTURE
    function = replace(function, given=given)
    copies = Copies(lambda number: function(seed_of_copy(seed, number)))
    kind = kind_of(path, copies.first)
    _check_own(path, own, kind)
    if drawn:
        _check_picture(path, copies.first, kind)
    own_areas = own.pop("areas", 1)
    number = areas if areas > 1 else own_areas
    return _environment(kind, copies, _Wish(path, seed, number, own, with_state, self_play, images))


def check(path: str, arguments: Sequence[str]) -> None:
    """Refuse an environment that cannot be made and begun.

    Raises:
        UnityEnvironmentException: As `make_source`.
        UnsupportedSpaceError: One of its spaces cannot be used.
        GameFaultError: It gives what is not of its spaces.
    """
    env = make(path, 0, arguments, 1)
    try:
        env.reset()
    finally:
        env.close()


def _read(path: str) -> tuple[str, str, Arguments]:
    """The names of the module and of its function, and the arguments within the path."""
    found = name_and_query(path.strip()[len(PYTHON) :])
    named = re.fullmatch(r"(\w+(?:\.\w+)*)(?::(\w*))?", found[0]) if found else None
    if found is None or named is None or re.search(r"\.py(:|$)", found[0]):
        raise UnityEnvironmentException(
            f"The environment {path!r} cannot be read; write 'python:MODULE:FUNCTION', such as "
            "'python:mygame:make' for the function make of mygame.py, or "
            "'python:MODULE:FUNCTION?key=value&key=value'."
        )
    return named[1], named[2] or "", found[1]


def _check_own(path: str, own: Arguments, kind: Kind) -> None:
    for key, value in own.items():
        wanted, kinds = _OWN[key]
        if kind not in kinds:
            raise UnityEnvironmentException(
                f"{path}: found {key}, which is for {' or '.join(sorted(each.value for each in kinds))}; "
                f"this is {kind.value}, and its function has no parameter {key}."
            )
        small = key in ("areas", "stack") and isinstance(value, int) and value < 1
        if type(value) is not wanted or small:
            expected = "true or false" if wanted is bool else "a number from 1 on"
            raise UnityEnvironmentException(f"{path}: found {key} {value!r}; expected {expected}.")


def _check_picture(path: str, env: Any, kind: Kind) -> None:
    mode = getattr(env, "render_mode", None)
    draws = hasattr(env, "draw") if kind is Kind.BASE_ENV else mode == PICTURE
    if not draws:
        missing = "it has no method draw()" if kind is Kind.BASE_ENV else f"its render_mode is {mode!r}"
        raise UnityEnvironmentException(
            f"{path} cannot be filmed: {missing}. Let its function take render_mode and make an environment "
            f"of the render mode {PICTURE!r}."
        )


def _environment(kind: Kind, copies: Copies, wish: _Wish) -> BaseEnv:
    makers: Mapping[Kind, Callable[[Copies, _Wish], BaseEnv]] = {
        Kind.BASE_ENV: _of_base_env,
        Kind.GYMNASIUM: _of_gymnasium,
        Kind.PARALLEL: _of_parallel,
        Kind.TURNS: _of_turns,
    }
    return makers[kind](copies, wish)


def _of_base_env(copies: Copies, wish: _Wish) -> BaseEnv:
    if wish.copies > 1:
        raise UnityEnvironmentException(
            f"{wish.path}: found {wish.copies} areas (--num-areas); its function gives a BaseEnv, which is "
            "stepped as it is. Let it take areas, and make so many itself."
        )
    return checked(copies(), wish.path)


def _of_gymnasium(copies: Copies, wish: _Wish) -> BaseEnv:
    from .gymnasium.environment import GymnasiumEnvironment
    from .gymnasium.source import behavior_of

    env = copies.first
    spec = getattr(env, "spec", None)
    name = type(getattr(env, "unwrapped", env)).__name__ if spec is None else behavior_of(spec.id)
    return GymnasiumEnvironment(
        *(copies, name), seed=wish.seed, copies=wish.copies, images=wish.images, **wish.own
    )


def _of_parallel(copies: Copies, wish: _Wish) -> BaseEnv:
    from .pettingzoo.environment import PettingZooEnvironment

    state = wish.own.get("state_observation", None if wish.with_state else False)
    return PettingZooEnvironment(copies, wish.seed, wish.copies, state, wish.images)


def _of_turns(copies: Copies, wish: _Wish) -> BaseEnv:
    from .pettingzoo.turn_based import TurnBasedEnvironment

    own = {"self_play": wish.self_play, **wish.own}
    return TurnBasedEnvironment(copies, wish.seed, wish.copies, images=wish.images, **own)
