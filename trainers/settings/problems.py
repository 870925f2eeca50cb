"""Validation errors as messages that name the place, what was found and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ..utils.errors import nearest
from .base import UNKNOWN_KEY, found
from .errors import Path, Problem, TrainerConfigError, dotted
from .registry import trainer_types
from .yaml_source import Source

# Errors that only follow from another one.
CONSEQUENCES = frozenset({"default_factory_not_called"})


Hint = Callable[[Path, Any], str]
"""What is said of an unknown key at a path, with a value, instead of the nearest key there; may be empty."""


def config_error(
    error: ValidationError, source: Source, hint: Hint = lambda path, value: ""
) -> TrainerConfigError:
    """Everything that `error` found wrong with `source`."""
    problems: list[Problem] = []
    listed: set[str] = set()
    for details in error.errors(include_url=False):
        if details["type"] in CONSEQUENCES:
            continue
        path = tuple(part for part in details["loc"] if part != "[key]")
        unknown = details["type"] == UNKNOWN_KEY
        sentence = _unknown_key(path, details, listed, hint) if unknown else _sentence(details)
        problem = Problem(path, sentence, source.place(path))
        if problem not in problems:
            problems.append(problem)
    return TrainerConfigError(problems)


def _unknown_key(path: Path, details: ErrorDetails, listed: set[str], hint: Hint) -> str:
    """What is wrong with a key; those that its section knows are named at its first unknown key."""
    parts = details["ctx"]
    known = "" if parts["known"] in listed else parts["known"]
    listed.add(parts["known"])
    meant = _owners(path) or hint(path, details["input"]) or parts["hint"]
    return f"{parts['message']}{meant}{known}"


def _owners(path: Path) -> str:
    """Which trainers have a hyperparameter that is unknown here."""
    if path[-2:-1] != ("hyperparameters",):
        return ""
    owners = [name for name, trainer in trainer_types.items() if path[-1] in trainer.settings.model_fields]
    return f" It is a hyperparameter of {', '.join(owners)}: see trainer_type." if owners else ""


def places_of(source: Source, key: str, value: Any) -> list[str]:
    """Where `key` has this value: `ball.yaml, line 4: behaviors.Ball.max_steps`."""
    found_at = list(_paths_of(source.data, key, value, ()))
    return [": ".join(part for part in (source.place(path), dotted(path)) if part) for path in found_at]


def _paths_of(tree: Any, key: str, value: Any, path: Path) -> Iterator[Path]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for name, item in items:
        if name == key and type(item) is type(value) and item == value:
            yield (*path, name)
        yield from _paths_of(item, key, value, (*path, name))


def _sentence(details: ErrorDetails) -> str:
    explain = _SENTENCES.get(details["type"])
    if explain is not None:
        return explain(details, details.get("ctx") or {})
    if "message" in (details.get("ctx") or {}):
        return details["msg"]
    return f"found {found(details['input'])}: {details['msg'][:1].lower()}{details['msg'][1:]}"


def _choice(details: ErrorDetails, context: dict[str, Any]) -> str:
    allowed = re.findall(r"'([^']*)'", context["expected"])
    close = nearest(str(details["input"]), allowed)
    hint = f". Did you mean {close}?" if close else ""
    return f"found {found(details['input'])}, expected one of {', '.join(allowed)}{hint}"


def _missing(details: ErrorDetails, context: dict[str, Any]) -> str:
    return f"`{details['loc'][-1]}` is required here and not given"


def _bound(words: str, key: str) -> Callable[[ErrorDetails, dict[str, Any]], str]:
    return lambda details, context: f"found {found(details['input'])}, expected {words} {context[key]}"


def _expected(words: str) -> Callable[[ErrorDetails, dict[str, Any]], str]:
    return lambda details, context: f"found {found(details['input'])}, expected {words}"


_SENTENCES: dict[str, Callable[[ErrorDetails, dict[str, Any]], str]] = {
    "enum": _choice,
    "literal_error": _choice,
    "missing": _missing,
    "greater_than": _bound("a number above", "gt"),
    "greater_than_equal": _bound("at least", "ge"),
    "less_than": _bound("a number below", "lt"),
    "less_than_equal": _bound("at most", "le"),
    "dict_type": _expected("a mapping"),
    "list_type": _expected("a list"),
    "string_too_short": _expected("some text"),
    "too_short": _expected("at least one entry"),
}
