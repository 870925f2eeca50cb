"""Reads YAML of others: plain values, and no more of them than any file needs."""

from __future__ import annotations

from typing import Any

import yaml

MOST_VALUES = 50_000
"""Keys and values of a file, those that aliases repeat counted each time; a hundred behaviors have 10,000."""


def load_yaml(text: str, loader: type[Any] = yaml.SafeLoader) -> Any:
    """What `yaml.safe_load` gives, for text whose aliases make neither billions of values nor a circle.

    Args:
        text: of the file.
        loader: a safe one, such as that which libyaml makes faster.

    Raises:
        yaml.YAMLError: it is not YAML, or as `require_size` says. Values that are not as their tag
            says (`!!int ''`) raise ValueError, TypeError and others, deep nesting RecursionError.
    """
    opened = loader(text)
    try:
        node = opened.get_single_node()
        if node is None:
            return None
        require_size(node)
        return opened.construct_document(node)
    finally:
        opened.dispose()


def require_size(node: yaml.Node, sizes: dict[int, int] | None = None) -> int:
    """How many keys and values a tree has once its aliases are written out; each node is visited once.

    Args:
        node: the root.
        sizes: of the nodes that were visited, by their id.

    Raises:
        yaml.YAMLError: more than MOST_VALUES, for a few aliases of aliases make billions; or an alias that
            contains itself.
    """
    sizes = {} if sizes is None else sizes
    if id(node) in sizes:
        if not sizes[id(node)]:
            raise yaml.constructor.ConstructorError(
                None, None, "an alias that contains itself", node.start_mark
            )
        return sizes[id(node)]
    size, sizes[id(node)] = 1, 0  # until all in it is counted
    if isinstance(node, yaml.CollectionNode):
        for item in node.value:
            parts = item if isinstance(item, tuple) else (item,)
            size += sum(require_size(part, sizes) for part in parts)
        if size > MOST_VALUES:
            what = f"with its aliases it has more than {MOST_VALUES} values, more than any run needs"
            raise yaml.constructor.ConstructorError(None, None, what, node.start_mark)
    sizes[id(node)] = size
    return size
