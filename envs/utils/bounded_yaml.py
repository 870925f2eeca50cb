"""Reads YAML and JSON of others: plain values, and no more, deeper or longer ones than any file needs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import yaml

MOST_VALUES = 50_000
"""Keys and values of a file, those that aliases repeat counted each time; a hundred behaviors have 10,000."""
MOST_DEPTH = 100
"""Mappings and lists in one another; those of a run are some ten deep."""
MOST_DIGITS = 3500
"""Characters of a number: the time that sexagesimal ones (`1:30:00`) take grows with their square, and Python
shows none of more than 4300 decimal digits."""
_TOO_DEEP = f"it is nested too deeply, in more than {MOST_DEPTH} mappings and lists"
_TOO_MANY = f"it has more than {MOST_VALUES} values, more than any run needs"
_NUMBERS = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})


class ImpossibleValueError(yaml.constructor.ConstructorError):
    """A value that cannot be what it looks like, such as a date, or what its tag says, such as !!int."""


class _PlainValues:
    """What tells where an impossible value stands; PyYAML raises errors of many types, without a place."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """As in PyYAML; raises YAMLError alone."""
        try:
            return super().construct_object(node, deep)  # type: ignore[misc]
        except (ValueError, OverflowError) as error:
            problem = f"found {str(node.value)[:60]!r}: {error}; put it in quotes if it is text"
            raise ImpossibleValueError(None, None, problem, node.start_mark) from error
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            problem = "a value is not of the type that its tag, such as !!int, announces"
            raise ImpossibleValueError(None, None, problem, node.start_mark) from error


class PlainLoader(_PlainValues, yaml.SafeLoader):
    """PyYAML's own, whose errors say most."""


class FastLoader(_PlainValues, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """That of libyaml, if it is there."""


def load_yaml(
    text: str, loader: type[Any] = PlainLoader, visit: Callable[[yaml.Node], None] | None = None
) -> Any:
    """What `yaml.safe_load` gives, for text whose aliases make neither billions of values nor a circle.

    Args:
        text: of the file.
        loader: `PlainLoader` or `FastLoader`.
        visit: sees the tree of the file, and may change its tags, before values are made of it.

    Raises:
        yaml.YAMLError: it is not YAML, a value is not as its tag says (`!!int ''`), or as `require_bounds`
            and `require_size` say.
    """
    require_bounds(text)
    opened = loader(text)
    try:
        node = _single_node(opened)
        if node is None:
            return None
        require_size(node)
        if visit is not None:
            visit(node)
        return opened.construct_document(node)
    except (ValueError, OverflowError) as error:  # of the scanner: an escape of a character that is none
        mark = getattr(opened, "get_mark", lambda: None)()
        raise ImpossibleValueError(None, None, str(error), mark) from error
    finally:
        opened.dispose()


def _single_node(opened: Any) -> yaml.Node | None:
    """The tree of a loader's text, which `require_bounds` has seen; None if it is empty.

    Newer versions of libyaml refuse deep nesting before they tell of it, so that `require_bounds` leaves such
    text to its loader; PyYAML's own one then descends as far as Python does.

    Raises:
        yaml.YAMLError: it is not YAML, or nested too deeply.
    """
    try:
        node: yaml.Node | None = opened.get_single_node()
    except RecursionError:
        raise _TooMuchError(None, None, _TOO_DEEP, None) from None
    return node


def load_json(text: str | bytes) -> Any:
    """What `json.loads` gives, for text that is not nested deeper than YAML may be.

    Raises:
        ValueError: it is not JSON, or nested deeper than MOST_DEPTH.
    """
    try:
        tree = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    level = _containers([tree])
    for _ in range(MOST_DEPTH):
        level = [inner for one in level for inner in _containers(one)]
    if level:
        raise ValueError(_TOO_DEEP)
    return tree


def finite_number(value: object) -> float | None:
    """A number of a file; None for all that is none, or none to compute with, as one of 400 digits."""
    try:
        number = float(value) if type(value) in (int, float) else math.nan  # type: ignore[arg-type]
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _containers(tree: dict[str, Any] | list[Any]) -> list[Any]:
    items = tree.values() if isinstance(tree, dict) else tree
    return [item for item in items if isinstance(item, (dict, list))]


def require_bounds(text: str) -> None:
    """Refuse depth and length before anything descends into it: in C, depth would end the process, not raise.

    Whether the text is YAML at all is left to its loader.

    Raises:
        yaml.YAMLError: it is nested deeper than MOST_DEPTH, or has more than MOST_VALUES.
    """
    depth, values, parser = 0, 0, getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        while parser.check_event():
            event = parser.get_event()
            values += isinstance(event, yaml.NodeEvent)
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MOST_DEPTH or values > MOST_VALUES:
                place: Any = event.start_mark  # of libyaml's type or PyYAML's
                raise _TooMuchError(None, None, _TOO_DEEP if depth > MOST_DEPTH else _TOO_MANY, place)
    except _TooMuchError:
        raise
    except (yaml.YAMLError, ValueError, OverflowError):  # its loader says where
        return
    finally:
        parser.dispose()


class _TooMuchError(yaml.composer.ComposerError):
    """More than any file needs."""


def require_size(node: yaml.Node, sizes: dict[int, int] | None = None) -> int:
    """How many keys and values a tree has once its aliases are written out; each node is visited once.

    Args:
        node: the root.
        sizes: of the nodes that were visited, by their id.

    Raises:
        yaml.YAMLError: more than MOST_VALUES, for a few aliases of aliases make billions; an alias that
            contains itself; or a number of more than MOST_DIGITS.
    """
    sizes = {} if sizes is None else sizes
    if id(node) in sizes:
        if not sizes[id(node)]:
            raise yaml.constructor.ConstructorError(
                None, None, "an alias that contains itself", node.start_mark
            )
        return sizes[id(node)]
    if node.tag in _NUMBERS and len(node.value) > MOST_DIGITS:
        what = f"a number of {len(node.value)} characters, and none needs more than {MOST_DIGITS}"
        raise yaml.constructor.ConstructorError(None, None, what, node.start_mark)
    size, sizes[id(node)] = 1, 0  # until all in it is counted
    if isinstance(node, yaml.CollectionNode):
        for item in node.value:
            parts = item if isinstance(item, tuple) else (item,)
            size += sum(require_size(part, sizes) for part in parts)
        if size > MOST_VALUES:
            what = f"with its aliases {_TOO_MANY}"
            raise yaml.constructor.ConstructorError(None, None, what, node.start_mark)
    sizes[id(node)] = size
    return size
