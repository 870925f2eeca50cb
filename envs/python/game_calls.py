"""Calls of games in Python, whose answers are looked at before they are believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from reprlib import repr as cut
from typing import Any

import numpy as np

from ..faults import GameFaultError
from .user_code import described

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
