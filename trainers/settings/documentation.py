"""What the keys of settings mean, read from the source where someone asks for it."""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base import Settings


def key_description(model: type[Settings], key: str) -> str:
    """The docstring below a key of a model, or its field's description, on one line; empty if there is none.

    pydantic could read the docstrings itself, but does so while the classes are made: at every start.
    """
    text = model.model_fields[key].description
    for owner in model.__mro__ if text is None else ():
        text = _documented_keys(owner.__module__).get(owner.__qualname__, {}).get(key)
        if text is not None:
            break
    return " ".join((text or "").split())


@cache
def _documented_keys(module: str) -> dict[str, dict[str, str]]:
    """The docstrings below annotated names, by the qualified name of the class; none without a source."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError, KeyError):
        return {}
    found: dict[str, dict[str, str]] = {}
    _read_classes(tree, "", found)
    return found


def _read_classes(
    tree: ast.Module | ast.ClassDef | ast.FunctionDef, prefix: str, found: dict[str, dict[str, str]]
) -> None:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            _read_classes(node, f"{prefix}{node.name}.<locals>.", found)
        if not isinstance(node, ast.ClassDef):
            continue
        keys = found.setdefault(prefix + node.name, {})
        for line, below in zip(node.body, node.body[1:], strict=False):
            if (
                isinstance(line, ast.AnnAssign)
                and isinstance(line.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
                and isinstance(below.value.value, str)
            ):
                keys[line.target.id] = below.value.value
        _read_classes(node, f"{prefix}{node.name}.", found)
