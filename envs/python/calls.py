"""Calls of a user's environments with checked results, their exceptions in one line, and their modules."""

from __future__ import annotations

import logging
import os
import pkgutil
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from reprlib import repr as cut
from types import ModuleType
from typing import Any

import numpy as np
from mlagents_envs.base_env import BaseEnv
from mlagents_envs.exception import UnityEnvironmentException, UnityException
from numpy.typing import NDArray

from ..errors import EnvContractError

logger = logging.getLogger(__name__)

RGB_ARRAY = "rgb_array"
"""The render mode in which an environment returns its frames."""

HINT = " lanista-learn --debug shows the whole traceback."
"""The hint at the end of messages that show a game's exception in one line."""

_ADDRESS = re.compile(r" object at 0x[0-9a-fA-F]+(?=>)")
"""The address in the text of an object without a text of its own: `<module.Class object at 0x7f...>`."""
_OLD = " The old package gym returns four; Gymnasium's compatibility wrappers (shimmy) convert them to five."


def call_method(game: object, method: str, *arguments: Any, **keywords: Any) -> Any:
    """Call a method of the game.

    Raises:
        EnvContractError: It raises an exception; the message says which and where.
    """
    try:
        return getattr(game, method)(*arguments, **keywords)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a game may raise anything, and must not end the process
        raise game_error(game, method, error) from error


def read_attribute(game: object, name: str) -> Any:
    """Read an attribute of the game, which may be a property.

    Raises:
        EnvContractError: There is none, or it raises an exception.
    """
    try:
        return getattr(game, name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise game_error(game, name, error) from error


def check_result(
    given: Any, game: object, method: str, parts: Sequence[str], *, by_agent: bool = False
) -> tuple[Any, ...]:
    """Check that a method's result is a tuple of these parts, of which the last, the infos, is a mapping.

    Args:
        given: The result.
        game: The environment, for the error message.
        method: The method's name, for the error message.
        parts: The names of the result's parts.
        by_agent: All parts are mappings.

    Raises:
        EnvContractError: The result is something else.
    """
    if not isinstance(given, tuple) or len(given) != len(parts):
        found = f"{len(given)} values" if isinstance(given, tuple) else f"a {type(given).__name__}"
        old = _OLD if isinstance(given, tuple) and (len(given), len(parts)) == (4, 5) else ""
        raise EnvContractError(
            f"{method} of {name_of(game)} returned {found}; expected {len(parts)}: {', '.join(parts)}.{old}"
        )
    for part, name in zip(given, parts) if by_agent else ((given[-1], parts[-1]),):
        if not isinstance(part, Mapping):
            raise EnvContractError(
                f"{method} of {name_of(game)} returned as {name} {shorten(part)} ({type(part).__name__}); "
                "expected a dict."
            )
    return given


def as_number(value: Any, what: str = "the reward") -> float:
    """Convert a number or an array of one number.

    Raises:
        ValueError: It is not a number, or several.
    """
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value.item() if isinstance(value, np.ndarray) else value)
    except Exception:  # of the arrays of any library
        raise ValueError(f"{what} is {shorten(value)} ({type(value).__name__}); expected a number") from None


def as_bool(value: Any, what: str) -> bool:
    """Convert a truth value or an array of one.

    Raises:
        ValueError: It is neither.
    """
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return bool(value)
    with suppress(Exception):  # arrays of any library that NumPy can read
        one = np.asarray(value)
        if one.size == 1 and one.dtype.kind in "biuf":
            return bool(one.item())
    raise ValueError(f"{what} is {shorten(value)} ({type(value).__name__}); expected True or False")


def check_frame(given: Any, game: object, method: str) -> NDArray[np.uint8]:
    """Check that a method has returned a frame: [height, width, 3], of integers from 0 to 255.

    Raises:
        EnvContractError: It is something else.
    """
    found = f"{shorten(given)} ({type(given).__name__})"
    with suppress(Exception):  # what NumPy cannot read is no frame
        frame = np.asarray(given)
        if frame.ndim == 3 and frame.shape[2] == 3 and frame.dtype.kind in "iu":
            return frame.astype(np.uint8, copy=False)
        if frame.ndim:
            found = f"an array of the shape {frame.shape} and dtype {frame.dtype}"
    raise EnvContractError(
        f"{method} of {name_of(game)} returned {found}; expected an array of the shape (height, width, 3) "
        f"and dtype uint8, as in the render mode {RGB_ARRAY!r}."
    )


def name_of(game: object) -> str:
    """A game in messages: its text, which names its class where it has none of its own."""
    return _ADDRESS.sub("", str(game))


def game_error(game: object, method: str, error: BaseException) -> EnvContractError:
    """The error for an exception that a game has raised."""
    return EnvContractError(f"{method} of {name_of(game)} raised {describe_error(error)}.{HINT}")


def close_all(games: Iterable[object]) -> None:
    """Close every game, also if one of them cannot be closed. Raises as `call_method`."""
    with ExitStack() as stack:
        for game in games:
            stack.callback(call_method, game, "close")


def close_checked(env: BaseEnv) -> None:
    """Close an environment that has served its purpose; what its `close` raises is a warning, as in a run."""
    try:
        env.close()
    except UnityException as error:  # it names the environment
        logger.warning("%s", error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        logger.warning("%s", game_error(env, "close", error))


def shorten(value: Any) -> str:
    """A value's repr, shortened to a part of a line."""
    return " ".join(cut(value).split())


_OURS = os.path.join(Path(__file__).parents[1], "")
_STANDARD = os.path.join(sysconfig.get_path("stdlib"), "")
_PACKAGES = {"site-packages", "dist-packages"}
"""Folders whose files are not the user's; an environment may see those of another one too."""
_MAX_LENGTH = 500
"""The most characters of an exception's message."""


def load_module(path: str, name: str) -> ModuleType:
    """Import a module, installed or in the working directory.

    Args:
        path: The environment's name, for messages.
        name: The module's dotted name.

    Raises:
        UnityEnvironmentException: There is no such module, it needs a missing package, or it fails.
    """
    find_in_working_folder()
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name == missing or name.startswith(f"{missing}."):
            near = suggest(missing.rpartition(".")[2], _sibling_modules(missing))
            why = f"there is no module {missing!r}, neither installed nor in {os.getcwd()}.{near}"
        else:
            why = f"the module {name} needs the package {missing!r}, which is not installed: pip install it."
        raise UnityEnvironmentException(f"{path}: {why}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the user's module raises
        raise UnityEnvironmentException(
            f"{path}: the module {name} cannot be imported: {describe_error(error)}."
        ) from error


def find_in_working_folder() -> None:
    """Make modules in the working directory importable, also for an installed command."""
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())


@contextmanager
def working_folder_kept(path: str, *, refuse: bool = True) -> Iterator[None]:
    """Keep the working directory, to which the files of a run are relative, from a user's environment.

    Args:
        path: The environment's name, for the message.
        refuse: Raise if it changes the directory; in any case the directory is the same afterwards.

    Raises:
        UnityEnvironmentException: It has changed the directory.
    """
    before = os.getcwd()
    try:
        yield
        after = os.getcwd()
    finally:
        os.chdir(before)
    if refuse and after != before:
        raise UnityEnvironmentException(
            f"{path} has changed the working directory from {before} to {after}, where this process would "
            "then look for its files and write them. Let it use absolute paths (Path(__file__).parent), or "
            "train it in a process of its own: --env-workers 1."
        )


def suggest(name: str, names: Iterable[str]) -> str:
    """` Did you mean ...?` with the names that are nearly this one; or nothing."""
    near = get_close_matches(name, list(names), n=3)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def describe_error(error: BaseException) -> str:
    """`KIND: what it says (file, line n)`, of the last line of the user's own that led to it; on one line."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {error.msg} ({Path(error.filename).name}, line {error.lineno})"
    message, kind = one_line(error), type(error).__name__
    message = message if len(message) <= _MAX_LENGTH else f"{message[:_MAX_LENGTH]}..."
    place = place_of(traceback.extract_tb(error.__traceback__))
    return f"{kind}: {message}{place}" if message else f"{kind}{place}"


def place_of(stack: Iterable[traceback.FrameSummary]) -> str:
    """` (file, line n)` of the last line of the user's own, else of another's than Lanista's; or nothing."""
    frames = [each for each in stack if not each.filename.startswith(_OURS)]
    own = [each for each in frames if not _is_installed(each.filename)] or frames
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""


def _is_installed(file: str) -> bool:
    return file.startswith(_STANDARD) or not _PACKAGES.isdisjoint(Path(file).parts)


def one_line(error: BaseException) -> str:
    """An error's message in one line."""
    return " ".join(str(error).split())


def _sibling_modules(name: str) -> list[str]:
    """The modules in the package where this one was looked up."""
    parent = name.rpartition(".")[0]
    if not parent:
        return [found.name for found in pkgutil.iter_modules()]
    return [found.name for found in pkgutil.iter_modules(getattr(import_module(parent), "__path__", []))]


def seed_of_copy(seed: int | None, copy: int) -> int | None:
    """A copy's seed: the first copy's is the given one, as for a single copy. None: a random one."""
    if seed is None or copy == 0:
        return seed
    return int(np.random.SeedSequence((seed & 0xFFFFFFFF, copy)).generate_state(1)[0] >> 1)


class Copies:
    """Makes copies of an environment one by one. The first exists already, to show of which kind they are."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        """`make`: makes the copy with this number, from 0 on."""
        self._make = make
        self._handed_out = 0
        self.first: Any = make(0)

    def __call__(self) -> Any:
        """The next copy."""
        number = self._handed_out
        self._handed_out += 1
        return self._make(number) if number else self.first
