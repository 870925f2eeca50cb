"""A user's function, looked up by name and called with arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from mlagents_envs.exception import UnityEnvironmentException

from .calls import describe_error, load_module, suggest
from .source_arguments import Arguments, format_arguments

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
        except (Exception, SystemExit) as error:  # the user's function may raise anything
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
