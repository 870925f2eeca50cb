"""Single values laid over a configuration: the flags of the command line, and `--set path=value`."""

from __future__ import annotations

import copy
import re
from typing import Any

from .errors import Problem, TrainerConfigError
from .problems import dotted
from .source import Path, Source, read_value
from .values import found

_PART = re.compile(r'"(?P<quoted>[^"]*)"|(?P<plain>[^."]+)')


def split_path(text: str) -> Path:
    """`behaviors.Ball.max_steps` as its parts; a part that holds a dot stands in double quotes.

    Raises:
        ValueError: it is no such path.
    """
    parts: list[str] = []
    position = 0
    while True:
        match = _PART.match(text, position)
        if match is None:
            raise ValueError(
                f"{text!r} is no path: expected keys with dots between, such as behaviors.Ball.max_steps; "
                'a name that holds a dot stands in double quotes, as in behaviors."My.Ball".max_steps'
            )
        parts.append(match["plain"] if match["quoted"] is None else match["quoted"])
        position = match.end()
        if position == len(text):
            return tuple(parts)
        if text[position] != ".":
            raise ValueError(f"{text!r} is no path: expected a dot after {text[:position]!r}")
        position += 1


def split_assignment(text: str) -> tuple[Path, Any]:
    """`path=value` as the path and the value, which is read as YAML.

    Raises:
        ValueError: it is no such assignment.
    """
    path, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} has no '=': expected PATH=VALUE, such as behaviors.Ball.max_steps=100000")
    parts = split_path(path.strip())
    try:
        return parts, read_value(value)
    except ValueError as error:
        raise ValueError(f"the value of {found(text)} cannot be read: {error}") from None


def assign(source: Source, path: Path, value: Any, place: str) -> None:
    """Set the value at `path`, making the mappings that lead to it; `place` says where that was written.

    Raises:
        TrainerConfigError: on the way is something else than a mapping or a list that long.
    """
    parent: Any = source.data
    for depth, part in enumerate(path[:-1]):
        child = parent.get(part) if isinstance(parent, dict) else _item(parent, path[: depth + 1], place)
        # A mapping that YAML aliases share is written to once, not wherever it is shared.
        child = copy.copy(child) if child is not None else {}
        if not isinstance(child, (dict, list)):
            message = f"found {found(child)}, which holds no keys, so {dotted(path)} cannot be set"
            raise TrainerConfigError([Problem(dotted(path[: depth + 1]), message, place)])
        _put(parent, part, child)
        parent = child
    if isinstance(parent, list):
        _item(parent, path, place)
    _put(parent, path[-1], value)
    for known in [known for known in source.places if known[: len(path)] == path]:
        del source.places[known]
    source.places[path] = place


def _put(parent: Any, part: str | int, value: Any) -> None:
    parent[int(part) if isinstance(parent, list) else part] = value


def _item(items: list[Any], path: Path, place: str) -> Any:
    part = str(path[-1])
    if not part.isdecimal() or int(part) >= len(items):
        message = f"expected one of its {len(items)} entries, numbered from 0"
        raise TrainerConfigError([Problem(dotted(path), message, place)])
    return items[int(part)]
