"""Names of environments with arguments in them, and arguments as on a command line."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl

from mlagents_envs.exception import UnityEnvironmentException

_WORDS = {"true": True, "false": False, "none": None, "null": None}

Arguments = dict[str, Any]


def name_and_query(text: str) -> tuple[str, Arguments] | None:
    """`NAME?key=value&key=value` as the name and its arguments; None if it cannot be read."""
    name, _, query = text.partition("?")
    try:
        settings = parse_qsl(query, strict_parsing=True) if query else []
    except ValueError:
        return None
    if not all(key for key, _ in settings):
        return None
    return name, {key.replace("-", "_"): value_of(text) for key, text in settings}


def keyed(path: str, arguments: Sequence[str]) -> Arguments:
    """`--key value`, `--key=value`, and `--key` alone for true.

    Raises:
        UnityEnvironmentException: Something else is there; `path` names the environment in the message.
    """
    options: dict[str, Any] = {}
    key = None
    for text in map(str, arguments):
        if text.startswith("--"):
            name, found, value = text[2:].partition("=")
            if not name:
                raise UnityEnvironmentException(f"{path}: found the argument {text!r}; expected --key value.")
            key = name.replace("-", "_")
            options[key] = value_of(value) if found else True
            key = None if found else key
        elif key is None:
            raise UnityEnvironmentException(f"{path}: found the argument {text!r}; expected --key value.")
        else:
            options[key], key = value_of(text), None
    return options


def written(arguments: Arguments) -> str:
    """Arguments as a message names them."""
    return ", ".join(f"{key}={value!r}" for key, value in arguments.items()) or "no arguments"


def find_in_working_folder() -> None:
    """Let a game in the folder one works in be found even by a command that is installed elsewhere."""
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())


def value_of(text: str) -> Any:
    """A number, a truth value, None, a list; else the text itself."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
