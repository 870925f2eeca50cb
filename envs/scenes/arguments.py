"""The command line of a scene: what a Unity executable is given, and the scene's own options."""

import argparse
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NoReturn

from .world import World

Options = Mapping[str, Any]
"""A world's options by name, as far as they were given: integers, floats, texts."""

_OPTION = "option "


class UsageError(ValueError):
    """The command line cannot be understood; the message, one line, is for the user."""

    def __init__(self, message: str, usage: str = "") -> None:
        super().__init__(message)
        self.usage = usage
        """All that the command line may hold."""


@dataclass(frozen=True, slots=True)
class EngineArguments:
    """A scene's command line, read."""

    port: int
    """At which the trainer listens."""
    log_file: str | None
    """Where to log; None is the standard error output, "-" the standard output."""
    options: Options
    """The scene's own, as far as they were given."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, self.format_help())


def options_of(world: type[World]) -> dict[str, inspect.Parameter]:
    """The options of a world: the keyword parameters of its constructor."""
    return {name: p for name, p in inspect.signature(world).parameters.items() if p.default is not p.empty}


def parse(world: type[World], arguments: Sequence[str], program: str) -> EngineArguments:
    """Read the command line of `world` as an engine.

    What is known as an argument of Unity players (one dash) and means nothing here is skipped.

    Raises:
        UsageError: An unknown option, a value of the wrong kind, or no port.
    """
    parser = _parser(world, program)
    given = _read(parser, world, arguments)
    if given["mlagents_port"] is None:
        parser.error(
            "no --mlagents-port: a scene is started by a trainer, for example by "
            "`lanista-learn CONFIG.yaml --env scene:NAME`"
        )
    return EngineArguments(given["mlagents_port"], given["logFile"], _options(given))


def parse_options(world: type[World], arguments: Sequence[str], program: str) -> Options:
    """Read the options of `world` where no trainer calls it.

    Raises:
        UsageError: An unknown option, or a value of the wrong kind.
    """
    return _options(_read(_parser(world, program), world, arguments))


def _parser(world: type[World], program: str) -> _Parser:
    parser = _Parser(prog=program, description=inspect.getdoc(world), allow_abbrev=False)
    parser.add_argument(
        "--mlagents-port", type=int, metavar="PORT", help="where the trainer listens; required"
    )
    parser.add_argument("-logFile", metavar="FILE", help="where to log ('-': standard output)")
    for name, parameter in options_of(world).items():
        kind = type(parameter.default)
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            dest=_OPTION + name,
            type=kind,
            default=argparse.SUPPRESS,
            metavar=kind.__name__.upper(),
            help=f"{_summary(world, name)} (default {parameter.default})",
        )
    return parser


def _read(parser: _Parser, world: type[World], arguments: Sequence[str]) -> dict[str, Any]:
    known, others = parser.parse_known_args(list(arguments))
    strange = next((text for text in others if text.startswith("--")), None)
    if strange is not None:
        options = [f"--{name.replace('_', '-')}" for name in options_of(world)]
        near = get_close_matches(strange, options, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        parser.error(f"unknown option {strange}.{hint} Options: {', '.join(options)}.")
    return vars(known)


def _options(given: Mapping[str, Any]) -> Options:
    return {key.removeprefix(_OPTION): value for key, value in given.items() if key.startswith(_OPTION)}


def _summary(world: type[World], option: str) -> str:
    """What the constructor's docstring says about an option, in the form "`option`: what it does."."""
    for line in (inspect.getdoc(world.__init__) or "").splitlines():
        head, found, text = line.partition(":")
        if found and head.strip().strip("`") == option:
            return text.strip().rstrip(".")
    return "an option of this scene"
