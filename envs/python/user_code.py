"""Code of the user's own: modules found by their names, and what they raise, told in one line."""

from __future__ import annotations

import os
import pkgutil
import sysconfig
import traceback
from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import ModuleType

from mlagents_envs.exception import UnityEnvironmentException

from .source_arguments import find_in_working_folder

_OURS = os.path.join(Path(__file__).parents[1], "")
_INSTALLED = tuple(os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "purelib", "platlib"))
"""Folders whose files the user has not written."""
_LONGEST = 500
"""Letters of what an exception says."""


def load_module(path: str, name: str) -> ModuleType:
    """Import a module, installed or in the folder in which one works.

    Args:
        path: The environment that names it, for messages.
        name: Its name, with dots.

    Raises:
        UnityEnvironmentException: There is no such module, it needs a package that is not there, or fails.
    """
    find_in_working_folder()
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name == missing or name.startswith(f"{missing}."):
            near = alike(missing.rpartition(".")[2], _neighbours(missing))
            why = f"there is no module {missing!r}, neither installed nor in {os.getcwd()}.{near}"
        else:
            why = f"the module {name} needs the package {missing!r}, which is not installed: pip install it."
        raise UnityEnvironmentException(f"{path}: {why}") from error
    except (Exception, SystemExit) as error:  # whatever the user's module raises
        raise UnityEnvironmentException(
            f"{path}: the module {name} cannot be imported: {described(error)}."
        ) from error


def alike(name: str, names: Iterable[str]) -> str:
    """` Did you mean ...?` with the names that are nearly this one; or nothing."""
    near = get_close_matches(name, list(names), n=3)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def described(error: BaseException) -> str:
    """`KIND: what it says (file, line n)`, of the last line of the user's own that led to it; on one line."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {error.msg} ({Path(error.filename).name}, line {error.lineno})"
    said, kind = one_line(error), type(error).__name__
    said = said if len(said) <= _LONGEST else f"{said[:_LONGEST]}..."
    frames = [
        each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(_OURS)
    ]
    own = [each for each in frames if not each.filename.startswith(_INSTALLED)] or frames
    place = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    return f"{kind}: {said}{place}" if said else f"{kind}{place}"


def one_line(error: BaseException) -> str:
    """What an error says, without its line ends."""
    return " ".join(str(error).split())


def _neighbours(name: str) -> list[str]:
    """The modules that are where this one was looked for."""
    parent = name.rpartition(".")[0]
    if not parent:
        return [found.name for found in pkgutil.iter_modules()]
    return [found.name for found in pkgutil.iter_modules(getattr(import_module(parent), "__path__", []))]
