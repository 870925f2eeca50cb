"""Calls of games in Python, whose answers are looked at before they are believed.

Code of the user's own: modules found by their names, and what they raise, told in one line.

Copies of one environment that are stepped side by side within a process.
"""

from __future__ import annotations

import os
import pkgutil
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from reprlib import repr as cut
from types import ModuleType
from typing import Any

import numpy as np
from mlagents_envs.exception import UnityEnvironmentException

from ..errors import GameFaultError
from .source_arguments import find_in_working_folder

HINT = " lanista-learn --debug shows the whole traceback."
"""Where an exception of the game's is told in one line."""

_OLD = " The old package gym gave four; Gymnasium's compatibility wrappers (shimmy) make five of them."


def called(game: object, method: str, *arguments: Any, **keywords: Any) -> Any:
    """What a method of the game gives.

    Raises:
        GameFaultError: It raises an exception; the message tells which and where.
    """
    try:
        return getattr(game, method)(*arguments, **keywords)
    except (Exception, SystemExit) as error:  # whatever a game raises; it does not end us
        raise raised(game, method, error) from error


def parts_of(
    given: Any, game: object, method: str, parts: Sequence[str], *, by_agent: bool = False
) -> tuple[Any, ...]:
    """What a method has given, if it is a tuple of these parts; the infos, the last part, are a mapping.

    Args:
        given: The answer.
        game: Whose.
        method: Which, for the message.
        parts: What it is to consist of.
        by_agent: All parts are mappings.

    Raises:
        GameFaultError: It is not so.
    """
    if not isinstance(given, tuple) or len(given) != len(parts):
        found = f"{len(given)} values" if isinstance(given, tuple) else f"a {type(given).__name__}"
        old = _OLD if isinstance(given, tuple) and (len(given), len(parts)) == (4, 5) else ""
        raise GameFaultError(
            f"{method} of {game} gave {found}; expected {len(parts)}: {', '.join(parts)}.{old}"
        )
    for part, name in zip(given, parts) if by_agent else ((given[-1], parts[-1]),):
        if not isinstance(part, Mapping):
            raise GameFaultError(
                f"{method} of {game} gave as {name} {shortened(part)} ({type(part).__name__}); expected a "
                "dict."
            )
    return given


def number(value: Any, what: str = "the reward") -> float:
    """A number, also where it is an array of one number.

    Raises:
        ValueError: It is none, or several.
    """
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value.item() if isinstance(value, np.ndarray) else value)
    except (TypeError, ValueError):
        raise ValueError(
            f"{what} is {shortened(value)} ({type(value).__name__}); expected a number"
        ) from None


def truth(value: Any, what: str) -> bool:
    """Yes or no, also where it is an array of one.

    Raises:
        ValueError: It is neither.
    """
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return bool(value)
    with suppress(Exception):  # arrays of any library that numpy can read
        one = np.asarray(value)
        if one.size == 1 and one.dtype.kind in "biuf":
            return bool(one.item())
    raise ValueError(f"{what} is {shortened(value)} ({type(value).__name__}); expected True or False")


def raised(game: object, method: str, error: BaseException) -> GameFaultError:
    """What to raise where a game has raised an exception."""
    return GameFaultError(f"{method} of {game} raised {described(error)}.{HINT}")


def shortened(value: Any) -> str:
    """What a value looks like, cut to a part of a line."""
    return " ".join(cut(value).split())


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


def seed_of_copy(seed: int | None, copy: int) -> int | None:
    """A copy's seed: the first has the one that was given, as if it was alone. None: chance of its own."""
    if seed is None or copy == 0:
        return seed
    return int(np.random.SeedSequence((seed & 0xFFFFFFFF, copy)).generate_state(1)[0] >> 1)


class Copies:
    """Hands out copies one after the other. The first is there already, and shows of which kind they are."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        """`make`: makes the copy of this number, from 0 on."""
        self._make = make
        self._handed_out = 0
        self.first: Any = make(0)

    def __call__(self) -> Any:
        """The next one."""
        number = self._handed_out
        self._handed_out += 1
        return self._make(number) if number else self.first
