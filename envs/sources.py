"""Environments that are stepped within this process, by how their names begin."""

from __future__ import annotations

import ast
import os
import pkgutil
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl

from mlagents_envs.base_env import BaseEnv
from mlagents_envs.exception import UnityEnvironmentException

from .pixels import Images

PETTINGZOO = "pettingzoo:"
"""How the names of PettingZoo's environments begin."""

_FACTORY = "parallel_env"
_WORDS = {"true": True, "false": False, "none": None, "null": None}


def in_process(path: str | None) -> bool:
    """Whether the environment is stepped here, and not a process of its own."""
    return path is not None and path.strip().startswith(PETTINGZOO)


def check_source(path: str) -> None:
    """Refuse an environment that cannot be made, before anything is written or loaded for it.

    Raises:
        UnityEnvironmentException: As `make_source`, but for what only its arguments show.
    """
    _factory(_read(path)[0])


def make_source(
    path: str,
    seed: int | None = None,
    arguments: Sequence[str] | None = None,
    areas: int = 1,
    *,
    with_state: bool = False,
    images: Images = "float32",
) -> BaseEnv:
    """The environment `pettingzoo:MODULE`, `pettingzoo:MODULE:FUNCTION`, either with `?key=value&key=value`.

    Args:
        path: As above. The module's function, `parallel_env` unless another is named, makes the environment.
        seed: Of its chance.
        arguments: `--key value` for the function; they win over those of the path. `--areas N` and
            `--state-observation` are for the PettingZooEnvironment.
        areas: How many copies; 1 leaves it to the arguments.
        with_state: Agents observe the global state where there is one, unless the arguments decide about it.
        images: What images are given out as.

    Raises:
        UnityEnvironmentException: There is no such module or function, a package is missing, or the arguments
            are not the function's.
    """
    name, query = _read(path)
    factory = _factory(name)
    options: dict[str, Any] = {**query, **_options(path, arguments or ())}
    own_areas = options.pop("areas", 1)
    state_observation = options.pop("state_observation", None if with_state else False)
    if not isinstance(own_areas, int) or not isinstance(state_observation, bool | None):
        raise UnityEnvironmentException(
            f"{path}: found areas {own_areas!r} and state_observation {state_observation!r}; expected a "
            "number and true or false."
        )
    from .pettingzoo import PettingZooEnvironment

    def make() -> Any:
        try:
            return factory(**options)
        except TypeError as error:
            given = ", ".join(f"{key}={value!r}" for key, value in options.items()) or "no arguments"
            raise UnityEnvironmentException(f"{path} cannot be made with {given}: {error}.") from error

    return PettingZooEnvironment(make, seed, areas if areas > 1 else own_areas, state_observation, images)


def _read(path: str) -> tuple[str, dict[str, Any]]:
    """The name of the module, perhaps with its function, and the arguments within the path."""
    name, _, query = path.strip()[len(PETTINGZOO) :].partition("?")
    try:
        settings = parse_qsl(query, strict_parsing=True) if query else []
    except ValueError:
        settings = [("", "")]
    if not all(name.partition(":")[0].split(".")) or not all(key for key, _ in settings):
        raise UnityEnvironmentException(
            f"The environment {path!r} cannot be read; write 'pettingzoo:MODULE', such as "
            "'pettingzoo:mpe2.simple_spread_v3', 'pettingzoo:MODULE:FUNCTION', or "
            "'pettingzoo:MODULE?key=value&key=value'."
        )
    return name, {key.replace("-", "_"): _value(text) for key, text in settings}


def _options(path: str, arguments: Sequence[str]) -> dict[str, Any]:
    """`--key value`, `--key=value`, and `--key` alone for true."""
    options: dict[str, Any] = {}
    key = None
    for text in map(str, arguments):
        if text.startswith("--"):
            name, found, value = text[2:].partition("=")
            if not name:
                raise UnityEnvironmentException(f"{path}: found the argument {text!r}; expected --key value.")
            key = name.replace("-", "_")
            options[key] = _value(value) if found else True
            key = None if found else key
        elif key is None:
            raise UnityEnvironmentException(f"{path}: found the argument {text!r}; expected --key value.")
        else:
            options[key], key = _value(text), None
    return options


def _value(text: str) -> Any:
    """A number, a truth value, None, a list; else the text itself."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _factory(name: str) -> Callable[..., Any]:
    module_name, _, function = name.partition(":")
    # A game in the folder one works in is found even by a command that is installed elsewhere.
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())
    try:
        import_module("pettingzoo")
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        raise UnityEnvironmentException(_missing(module_name, error.name or "")) from error
    factory = getattr(module, function or _FACTORY, None)
    if factory is None:
        has = f" It has {', '.join(names)}." if (names := _functions(module)) else ""
        raise UnityEnvironmentException(
            f"The module {module_name} has no function {function or _FACTORY!r}.{has} Name another with "
            f"'pettingzoo:{module_name}:FUNCTION'. Environments whose agents take turns have no parallel_env "
            "and cannot be used yet."
        )
    return factory  # type: ignore[no-any-return]


def _functions(module: Any) -> list[str]:
    return [name for name, thing in vars(module).items() if callable(thing) and not name.startswith("_")][:10]


def _missing(module_name: str, missing: str) -> str:
    """What to do about a module that is not there."""
    if missing == "pettingzoo":
        return "PettingZoo is not installed: pip install 'lanista[pettingzoo]'."
    if module_name != missing and not module_name.startswith(f"{missing}."):
        return (
            f"The module {module_name} needs the package {missing!r}, which is not installed: pip install it."
        )
    parent, _, last = missing.rpartition(".")
    if not parent:
        return (
            f"There is no module {missing!r}, neither installed nor in {os.getcwd()}. The multi-particle "
            "environments are in the package mpe2, PettingZoo's own in pettingzoo.butterfly, .classic, .sisl "
            "and .atari."
        )
    module = import_module(parent)
    if callable(getattr(module, last, None)):
        return f"{last!r} is no module but a function of {parent}: write {PETTINGZOO}{parent}:{last}."
    if not hasattr(module, "__path__"):
        has = ", ".join(_functions(module)) or "no functions"
        return f"{parent!r} is a module and no package: there is no {missing!r} in it. It has {has}."
    names = [found.name for found in pkgutil.iter_modules(module.__path__)]
    near = get_close_matches(last, names, n=3, cutoff=0.5) or names[:10]
    return f"The package {parent!r} has no module {last!r}. It has {', '.join(near)}."
