"""PettingZoo environments by name: `pettingzoo:MODULE`."""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches
from importlib import import_module
from inspect import signature
from typing import Any

from mlagents_envs.exception import UnityEnvironmentException, UnityException

from ...images import Images
from ...utils.installation import install_command
from .. import PETTINGZOO
from ..base import CopiedEnvironment
from ..calls import RGB_ARRAY, Copies, close_checked, describe_error, find_in_working_folder, one_line
from ..source_arguments import Arguments, format_arguments, parse_arguments, split_query

_FACTORY = "parallel_env"
_TURN_BASED_FACTORY = "env"
"""The name of the factory in modules whose agents take turns."""
_TURN_BASED = {
    "self_play": (bool, "true or false"),
    "stack_size": (int, "a number"),
    "max_steps_per_episode": (int, "a number"),
    "boards": (bool, "true or false"),
}
"""The arguments of a TurnBasedEnvironment, with their types."""


def check(path: str, arguments: Sequence[str], parameters: Collection[str] = ()) -> None:
    """Refuse an environment that cannot be made, or does not take a parameter.

    Raises:
        UnityEnvironmentException: As `make`, but without parameters not for errors in its arguments.
    """
    _factory(_read(path)[0])
    if parameters:
        env = make(path, None, arguments, 1, with_state=False, images="uint8")
        try:
            env.check_parameters(parameters)
        finally:
            close_checked(env)


def make(
    path: str,
    seed: int | None,
    arguments: Sequence[str],
    areas: int,
    *,
    with_state: bool,
    self_play: bool | None = False,
    images: Images,
    drawn: bool = False,
) -> CopiedEnvironment:
    """Make `pettingzoo:MODULE` or `pettingzoo:MODULE:FUNCTION`, optionally with `?key=value&key=value`.

    The named function makes the environment, by default the module's `parallel_env`, or else `env`. Of the
    arguments, `--areas N` and `--state-observation` are for the PettingZooEnvironment, and `--areas N`,
    `--self-play`, `--stack-size N`, `--max-steps-per-episode N` and `--boards` for the TurnBasedEnvironment
    of games whose agents take turns. Otherwise as `make_source`.
    """
    name, query = _read(path)
    factory = _factory(name)
    options: Arguments = {**query, **parse_arguments(path, arguments)}
    if drawn:
        options["render_mode"] = RGB_ARRAY
    own_areas = options.pop("areas", 1)
    state_observation = options.pop("state_observation", None if with_state else False)
    if not isinstance(own_areas, int) or not isinstance(state_observation, bool | None):
        raise UnityEnvironmentException(
            f"{path}: found areas {own_areas!r} and state_observation {state_observation!r}; expected a "
            "number and true or false."
        )
    turns = _turn_based_arguments(path, factory, options)
    copies = Copies(lambda _: _make(path, factory, options))
    number = areas if areas > 1 else own_areas
    if not takes_turns(copies.first):
        from .environment import PettingZooEnvironment

        if turns:
            raise UnityEnvironmentException(
                f"{path}: found {', '.join(turns)}, which are for environments whose agents take turns; the "
                "agents of this one act at the same time."
            )
        return PettingZooEnvironment(copies, seed, number, state_observation, images)
    from .turn_based import TurnBasedEnvironment

    return TurnBasedEnvironment(copies, seed, number, images=images, **{"self_play": self_play, **turns})


def takes_turns(env: Any) -> bool:
    """Whether the environment's agents act one at a time (an AECEnv)."""
    return hasattr(env, "agent_iter")


def _make(path: str, factory: Callable[..., Any], options: Arguments) -> Any:
    try:
        return factory(**options)
    except UnityException:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the constructor of a game may raise anything
        cause = one_line(error) if isinstance(error, TypeError) else describe_error(error)
        raise UnityEnvironmentException(
            f"{path} cannot be made with {format_arguments(options)}: {cause}."
        ) from error


def _turn_based_arguments(path: str, factory: Callable[..., Any], options: Arguments) -> Arguments:
    """Remove the arguments of a TurnBasedEnvironment, except parameters of the game, and return them."""
    try:
        of_game = set(signature(factory).parameters)
    except (TypeError, ValueError):  # a function without a signature, like those in C
        of_game = set()
    found = {key: options.pop(key) for key in _TURN_BASED if key in options and key not in of_game}
    for key, value in found.items():
        kind, expected = _TURN_BASED[key]
        if type(value) is not kind:
            raise UnityEnvironmentException(f"{path}: found {key} {value!r}; expected {expected}.")
    return found


def _read(path: str) -> tuple[str, Arguments]:
    """Parse the module's name, with its function if any, and the arguments within the path."""
    found = split_query(path.strip()[len(PETTINGZOO) :])
    if found is None or not all(found[0].partition(":")[0].split(".")):
        raise UnityEnvironmentException(
            f"The environment {path!r} is not valid; write 'pettingzoo:MODULE', such as "
            "'pettingzoo:mpe2.simple_spread_v3', 'pettingzoo:MODULE:FUNCTION', or "
            "'pettingzoo:MODULE?key=value&key=value'."
        )
    return found


def _factory(name: str) -> Callable[..., Any]:
    module_name, _, function = name.partition(":")
    find_in_working_folder()
    try:
        import_module("pettingzoo")
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        raise UnityEnvironmentException(_missing(module_name, error.name or "")) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the module raises
        raise UnityEnvironmentException(
            f"The module {module_name} cannot be imported: {describe_error(error)}."
        ) from error
    factory = getattr(module, function or _FACTORY, None)
    if factory is None and not function:
        factory = getattr(module, _TURN_BASED_FACTORY, None)
    if factory is None:
        has = f" It has {', '.join(names)}." if (names := _functions(module)) else ""
        raise UnityEnvironmentException(
            f"The module {module_name} has no function {function or _FACTORY!r}.{has} Name another with "
            f"'pettingzoo:{module_name}:FUNCTION'."
        )
    return factory  # type: ignore[no-any-return]


def _functions(module: Any) -> list[str]:
    return [name for name, thing in vars(module).items() if callable(thing) and not name.startswith("_")][:10]


def _missing(module_name: str, missing: str) -> str:
    """Explain that a module is missing, and what to do."""
    if missing == "pettingzoo":
        return f"PettingZoo is not installed: {install_command('pettingzoo')}."
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
        return f"{last!r} is not a module but a function of {parent}: write {PETTINGZOO}{parent}:{last}."
    if not hasattr(module, "__path__"):
        has = ", ".join(_functions(module)) or "no functions"
        return f"{parent!r} is a module, not a package: there is no {missing!r} in it. It has {has}."
    names = [found.name for found in pkgutil.iter_modules(module.__path__)]
    near = get_close_matches(last, names, n=3, cutoff=0.5) or names[:10]
    return f"The package {parent!r} has no module {last!r}. It has {', '.join(near)}."
