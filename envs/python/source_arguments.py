"""Parse the arguments in names of Python environments, and command-line arguments."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl

from mlagents_envs.exception import UnityEnvironmentException

_WORDS = {"true": True, "false": False, "none": None, "null": None}

Arguments = dict[str, Any]


def split_query(text: str) -> tuple[str, Arguments] | None:
    """Split `NAME?key=value&key=value` into the name and its arguments; None if it is not valid."""
    name, _, query = text.partition("?")
    try:
        settings = parse_qsl(query, strict_parsing=True) if query else []
    except ValueError:
        return None
    if not all(key for key, _ in settings):
        return None
    return name, {key.replace("-", "_"): parse_value(text) for key, text in settings}


def parse_arguments(path: str, arguments: Sequence[str]) -> Arguments:
    """Parse `--key value`, `--key=value`, and `--key` alone for true.

    Raises:
        UnityEnvironmentException: Another form; `path` names the environment in the message.
    """
    options: dict[str, Any] = {}
    key = None
    for text in map(str, arguments):
        if text.startswith("--"):
            name, found, value = text[2:].partition("=")
            if not name:
                raise UnityEnvironmentException(f"{path}: found the argument {text!r}; expected --key value.")
            key = name.replace("-", "_")
            options[key] = parse_value(value) if found else True
            key = None if found else key
        elif key is None:
            raise UnityEnvironmentException(f"{path}: found the argument {text!r}; expected --key value.")
        else:
            options[key], key = parse_value(text), None
    return options


def format_arguments(arguments: Arguments) -> str:
    """Format arguments for a message."""
    return ", ".join(f"{key}={value!r}" for key, value in arguments.items()) or "no arguments"


def parse_value(text: str) -> Any:
    """Parse a number, a truth value, None, or a list; else return the text itself."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):  # as of {[1]}, or deeply nested
        return text
