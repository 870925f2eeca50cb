"""A function of the user's own, found by its names and called with arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from mlagents_envs.exception import UnityEnvironmentException

from .calls import alike, described, load_module
from .source_arguments import Arguments, written

_MOST_NAMES = 10
"""So many functions a message lists."""


@dataclass(frozen=True, slots=True)
class Function:
    """What makes an environment, and what it is given."""

    path: str
    """The environment's name, for messages."""
    name: str
    call: Callable[..., Any]
    given: Arguments
    parameters: frozenset[str]
    """Those that can be given by their names."""
    any_name: bool
    """It takes arguments of any name besides (`**options`)."""

    def takes(self, name: str) -> bool:
        """Whether an argument of this name can be given."""
        return self.any_name or name in self.parameters

    def __call__(self, seed: int | None) -> Any:
        """What it gives; it gets the seed if it has a parameter of this name and was not given one.

        Raises:
            UnityEnvironmentException: It does not take these arguments, or raises an exception.
        """
        given = dict(self.given)
        if "seed" in self.parameters:
            given.setdefault("seed", seed)
        self._check(given)
        try:
            return self.call(**given)
        except (Exception, SystemExit) as error:  # whatever the user's function raises
            raise UnityEnvironmentException(
                f"{self.path}: {self.name} raised {described(error)}, called with {written(given)}."
            ) from error

    def _check(self, given: Arguments) -> None:
        unknown = next((key for key in given if not self.takes(key)), None)
        if unknown is not None:
            takes = ", ".join(sorted(self.parameters)) or "none"
            raise UnityEnvironmentException(
                f"{self.path}: {self.name} takes no argument {unknown!r}.{alike(unknown, self.parameters)} "
                f"Its arguments: {takes}."
            )
        try:
            inspect.signature(self.call).bind(**given)
        except ValueError:  # it has no signature, as functions in C
            return
        except TypeError as error:
            raise UnityEnvironmentException(
                f"{self.path}: {self.name} cannot be called with {written(given)}: {error}. Give arguments "
                "after --env-args as --key value."
            ) from error


def find_function(path: str, module_name: str, name: str, given: Arguments) -> Function:
    """A module's function, to be called with what is given.

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
    """Why there is nothing to call, and what there is."""
    own = [
        key
        for key, thing in vars(module).items()
        if callable(thing) and not key.startswith("_") and getattr(thing, "__module__", None) == module_name
    ]
    near = alike(name, own)
    has = f"It has {', '.join(own[:_MOST_NAMES])}." if own else "It has no functions."
    place = getattr(module, "__file__", None) or "a package without a file"
    if not name:
        return f"which function? Write python:{module_name}:FUNCTION. {has} ({place})"
    if found is not None:
        return f"{name!r} of the module {module_name} is a {type(found).__name__} and no function. {has}"
    return f"the module {module_name} has no function {name!r}.{near or ' ' + has} ({place})"
