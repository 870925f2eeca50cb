"""Environments made by a user's function: `python:MODULE:FUNCTION`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from types import ModuleType
from typing import Any

from mlagents_envs.base_env import BaseEnv
from mlagents_envs.exception import UnityEnvironmentException

from ..images import Images
from . import PYTHON
from .base import CopiedEnvironment
from .calls import (
    RGB_ARRAY,
    Copies,
    close_checked,
    describe_error,
    load_module,
    seed_of_copy,
    shorten,
    suggest,
)
from .checked import CheckedEnvironment, wrap_checked
from .pettingzoo.source import takes_turns
from .source_arguments import Arguments, format_arguments, parse_arguments, split_query

_MAX_NAMES = 10
"""The most functions that a message lists."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function that makes an environment, and its arguments."""

    path: str
    """The environment's name, for messages."""
    name: str
    call: Callable[..., Any]
    given: Arguments
    parameters: frozenset[str]
    """The names of its parameters."""
    any_name: bool
    """Whether it also accepts arguments of any name (`**options`)."""

    def takes(self, name: str) -> bool:
        """Whether it accepts an argument of this name."""
        return self.any_name or name in self.parameters

    def __call__(self, seed: int | None) -> Any:
        """Call it, with the seed if it has such a parameter and none was given.

        Raises:
            UnityEnvironmentException: It does not accept these arguments, or raises an exception.
        """
        given = dict(self.given)
        if "seed" in self.parameters:
            given.setdefault("seed", seed)
        self._check(given)
        try:
            return self.call(**given)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the user's function may raise anything
            raise UnityEnvironmentException(
                f"{self.path}: {self.name} raised {describe_error(error)}, called with "
                f"{format_arguments(given)}."
            ) from error

    def _check(self, given: Arguments) -> None:
        unknown = next((key for key in given if not self.takes(key)), None)
        if unknown is not None:
            takes = ", ".join(sorted(self.parameters)) or "none"
            raise UnityEnvironmentException(
                f"{self.path}: {self.name} takes no argument {unknown!r}.{suggest(unknown, self.parameters)} "
                f"Its arguments: {takes}."
            )
        try:
            inspect.signature(self.call).bind(**given)
        except ValueError:  # it has no signature, like functions in C
            return
        except TypeError as error:
            raise UnityEnvironmentException(
                f"{self.path}: {self.name} cannot be called with {format_arguments(given)}: {error}. Give "
                "arguments after --env-args as --key value."
            ) from error


def find_function(path: str, module_name: str, name: str, given: Arguments) -> Function:
    """Look up a module's function, to be called with `given`.

    Raises:
        UnityEnvironmentException: There is no such module, or no such function in it.
    """
    module = load_module(path, module_name)
    call = getattr(module, name, None) if name else None
    if not callable(call):
        raise UnityEnvironmentException(f"{path}: {_missing(module, module_name, name, call)}")
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return Function(path, name, call, given, frozenset(), any_name=True)
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = frozenset(each.name for each in parameters if each.kind in named)
    any_name = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
    return Function(path, name, call, given, names, any_name)


def _missing(module: ModuleType, module_name: str, name: str, found: object) -> str:
    """Why the function was not found, and which functions there are."""
    own = [
        key
        for key, thing in vars(module).items()
        if callable(thing) and not key.startswith("_") and getattr(thing, "__module__", None) == module_name
    ]
    near = suggest(name, own)
    has = f"It has {', '.join(own[:_MAX_NAMES])}." if own else "It has no functions."
    place = getattr(module, "__file__", None) or "a package without a file"
    if not name:
        return f"which function? Write python:{module_name}:FUNCTION. {has} ({place})"
    if found is not None:
        return (
            f"{name!r} of the module {module_name} is of type {type(found).__name__}, not a function. {has}"
        )
    return f"the module {module_name} has no function {name!r}.{near or ' ' + has} ({place})"


_GAME = ("reset", "step", "close", "observation_space", "action_space")
"""The attributes that Gymnasium's and PettingZoo's environments have in common."""


class EnvKind(Enum):
    """The interface of an environment; the values are for messages."""

    BASE_ENV = "a BaseEnv"
    GYMNASIUM = "a Gymnasium environment"
    PARALLEL = "a parallel PettingZoo environment"
    TURNS = "a PettingZoo environment whose agents take turns"


def env_kind(path: str, env: Any) -> EnvKind:
    """Determine the interface of the environment that a function returned.

    Raises:
        UnityEnvironmentException: It is not an environment; `path` starts the message.
    """
    if isinstance(env, BaseEnv):
        return EnvKind.BASE_ENV
    other = _describe_other(env)
    if other:
        raise UnityEnvironmentException(
            f"{path}: the function returned {other}. Expected a BaseEnv, or a Gymnasium or PettingZoo "
            "environment."
        )
    if takes_turns(env):
        return EnvKind.TURNS
    # PettingZoo's spaces are methods of an agent, Gymnasium's are attributes.
    return EnvKind.PARALLEL if callable(env.observation_space) else EnvKind.GYMNASIUM


def _describe_other(env: Any) -> str:
    """Describe an object that is not an environment; empty if it is one."""
    if isinstance(env, type):
        return f"the class {env.__name__} instead of an instance: call it"
    if any(each.__module__.partition(".")[0] == "gym" for each in type(env).__mro__):
        return (
            f"{type(env).__name__}, an environment of the unmaintained package gym: port it "
            "to gymnasium, or wrap it with shimmy's GymV21CompatibilityV0 or GymV26CompatibilityV0"
        )
    if hasattr(env, "single_observation_space"):
        return (
            f"{type(env).__name__}, many environments in one (a VectorEnv): return one of them, and set "
            "--num-areas"
        )
    lacks = [name for name in _GAME if not hasattr(env, name)]
    if len(lacks) == len(_GAME):
        return "nothing (None); perhaps its return is missing" if env is None else _named(env)
    return f"{_named(env)}, which lacks {', '.join(lacks)}" if lacks else ""


def _named(value: Any) -> str:
    return f"{shorten(value)} of the type {type(value).__name__}"


_OWN: Mapping[str, tuple[type, frozenset[EnvKind]]] = {
    "areas": (int, frozenset(EnvKind)),
    "stack": (int, frozenset({EnvKind.GYMNASIUM})),
    "lives": (bool, frozenset({EnvKind.GYMNASIUM})),
    "state_observation": (bool, frozenset({EnvKind.PARALLEL})),
    "self_play": (bool, frozenset({EnvKind.TURNS})),
    "stack_size": (int, frozenset({EnvKind.TURNS})),
    "max_steps_per_episode": (int, frozenset({EnvKind.TURNS})),
    "boards": (bool, frozenset({EnvKind.TURNS})),
}
"""Lanista's own arguments: their types, and the kinds of environments that they are for."""


@dataclass(frozen=True, slots=True)
class _Request:
    """The options of an environment besides the arguments of its function."""

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
    """Make the environment `python:MODULE:FUNCTION`, optionally with `?key=value&key=value`.

    The function gets the arguments, except Lanista's own (those of the sources `gymnasium:` and
    `pettingzoo:`) unless it has a parameter of that name. It also gets `seed`, which differs for every copy,
    if it has such a parameter. It returns a BaseEnv, or a Gymnasium or PettingZoo environment. Otherwise as
    `make_source`.

    Raises:
        UnityEnvironmentException: As `make_source`; or the function raises, or returns something else.
        UnsupportedSpaceError: One of its spaces cannot be used.
    """
    function = find_function(path, *_read(path))
    given = {**function.given, **parse_arguments(path, arguments)}
    own = {key: given.pop(key) for key in _OWN if key in given and key not in function.parameters}
    if "areas" in function.parameters and areas > 1:
        given["areas"], areas = areas, 1
    if drawn and function.takes("render_mode"):
        given["render_mode"] = RGB_ARRAY
    function = replace(function, given=given)
    copies = Copies(lambda number: function(seed_of_copy(seed, number)))
    kind = env_kind(path, copies.first)
    _check_own(path, own, kind)
    if drawn:
        _check_picture(path, copies.first, kind)
    own_areas = own.pop("areas", 1)
    number = areas if areas > 1 else own_areas
    return _environment(kind, copies, _Request(path, seed, number, own, with_state, self_play, images))


def check(path: str, arguments: Sequence[str], parameters: Collection[str] = ()) -> None:
    """Refuse an environment that cannot be made and reset, or does not take a parameter.

    Raises:
        UnityEnvironmentException: As `make_source`.
        UnsupportedSpaceError: One of its spaces cannot be used.
        EnvContractError: Its first observation is not in its space.
    """
    env = make(path, 0, arguments, 1)
    try:
        if isinstance(env, CopiedEnvironment | CheckedEnvironment):
            env.check_parameters(parameters)
        env.reset()
    finally:
        close_checked(env)


def _read(path: str) -> tuple[str, str, Arguments]:
    """Parse the module's and the function's name, and the arguments within the path."""
    found = split_query(path.strip()[len(PYTHON) :])
    named = re.fullmatch(r"(\w+(?:\.\w+)*)(?::(\w*))?", found[0]) if found else None
    if found is None or named is None or re.search(r"\.py(:|$)", found[0]):
        raise UnityEnvironmentException(
            f"The environment {path!r} is not valid; write 'python:MODULE:FUNCTION', such as "
            "'python:mygame:make' for the function make of mygame.py, or "
            "'python:MODULE:FUNCTION?key=value&key=value'."
        )
    return named[1], named[2] or "", found[1]


def _check_own(path: str, own: Arguments, kind: EnvKind) -> None:
    for key, value in own.items():
        wanted, kinds = _OWN[key]
        if kind not in kinds:
            raise UnityEnvironmentException(
                f"{path}: found {key}, which is for {' or '.join(sorted(each.value for each in kinds))}; "
                f"this is {kind.value}, and its function has no parameter {key}."
            )
        small = key in ("areas", "stack") and isinstance(value, int) and value < 1
        if type(value) is not wanted or small:
            expected = "true or false" if wanted is bool else "a number of at least 1"
            raise UnityEnvironmentException(f"{path}: found {key} {value!r}; expected {expected}.")


def _check_picture(path: str, env: Any, kind: EnvKind) -> None:
    mode = getattr(env, "render_mode", None)
    draws = hasattr(env, "draw") if kind is EnvKind.BASE_ENV else mode == RGB_ARRAY
    if draws:
        return
    if kind is EnvKind.BASE_ENV:
        raise UnityEnvironmentException(
            f"{path} cannot be filmed: it has no method draw(). Give {type(env).__name__} one without "
            "arguments, which returns an array of shape (height, width, 3) and dtype uint8."
        )
    raise UnityEnvironmentException(
        f"{path} cannot be filmed: its render_mode is {mode!r}. Let its function accept render_mode, and "
        f"make an environment with the render mode {RGB_ARRAY!r}."
    )


def _environment(kind: EnvKind, copies: Copies, request: _Request) -> BaseEnv:
    makers: Mapping[EnvKind, Callable[[Copies, _Request], BaseEnv]] = {
        EnvKind.BASE_ENV: _of_base_env,
        EnvKind.GYMNASIUM: _of_gymnasium,
        EnvKind.PARALLEL: _of_parallel,
        EnvKind.TURNS: _of_turns,
    }
    return makers[kind](copies, request)


def _of_base_env(copies: Copies, request: _Request) -> BaseEnv:
    if request.copies > 1:
        raise UnityEnvironmentException(
            f"{request.path}: found {request.copies} areas (--num-areas); its function returns a BaseEnv, "
            "which is not copied. Let it accept areas, and make that many itself."
        )
    return wrap_checked(copies(), request.path)


def _of_gymnasium(copies: Copies, request: _Request) -> BaseEnv:
    from .gymnasium.environment import GymnasiumEnvironment
    from .gymnasium.source import behavior_of

    env = copies.first
    spec = getattr(env, "spec", None)
    name = type(getattr(env, "unwrapped", env)).__name__ if spec is None else behavior_of(spec.id)
    return GymnasiumEnvironment(
        copies, name, seed=request.seed, copies=request.copies, images=request.images, **request.own
    )


def _of_parallel(copies: Copies, request: _Request) -> BaseEnv:
    from .pettingzoo.environment import PettingZooEnvironment

    state = request.own.get("state_observation", None if request.with_state else False)
    return PettingZooEnvironment(copies, request.seed, request.copies, state, request.images)


def _of_turns(copies: Copies, request: _Request) -> BaseEnv:
    from .pettingzoo.turn_based import TurnBasedEnvironment

    own = {"self_play": request.self_play, **request.own}
    return TurnBasedEnvironment(copies, request.seed, request.copies, images=request.images, **own)
