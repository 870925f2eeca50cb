"""The command line of a scene: what a Unity executable is given, and the scene's own options."""

import argparse
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from .world import World


class UsageError(ValueError):
    """The command line cannot be understood; the message is for the user."""


@dataclass(frozen=True, slots=True)
class EngineArguments:
    """A scene's command line, read."""

    port: int
    """At which the trainer listens."""
    log_file: str | None
    """Where to log; None is the standard error output, "-" the standard output."""
    options: Mapping[str, int | float | str]
    """The scene's own, as far as they were given."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n\n{self.format_help()}")


def options_of(world: type[World]) -> dict[str, inspect.Parameter]:
    """The options of a world: the keyword parameters of its constructor."""
    return {name: p for name, p in inspect.signature(world).parameters.items() if p.default is not p.empty}


def parse(world: type[World], arguments: Sequence[str], program: str) -> EngineArguments:
    """Read the command line of `world`.

    What is known as an argument of Unity players (one dash) and means nothing here is skipped.

    Raises:
        UsageError: An unknown option, a value of the wrong kind, or no port.
    """
    parser = _Parser(prog=program, description=inspect.getdoc(world), allow_abbrev=False)
    parser.add_argument(
        "--mlagents-port", type=int, metavar="PORT", help="where the trainer listens; required"
    )
    parser.add_argument("-logFile", metavar="FILE", help="where to log ('-': standard output)")
    for name, parameter in options_of(world).items():
        kind = type(parameter.default)
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            dest=f"option {name}",
            type=kind,
            default=argparse.SUPPRESS,
            metavar=kind.__name__.upper(),
            help=f"{_summary(world, name)} (default {parameter.default})",
        )
    known, others = parser.parse_known_args(list(arguments))
    strange = next((text for text in others if text.startswith("--")), None)
    if strange is not None:
        parser.error(f"unknown option {strange}")
    if known.mlagents_port is None:
        parser.error(
            "no --mlagents-port: a scene is started by a trainer, for example by "
            "`lanista-learn CONFIG.yaml --env scene:NAME`"
        )
    given: dict[str, Any] = vars(known)
    options = {
        key.removeprefix("option "): value for key, value in given.items() if key.startswith("option ")
    }
    return EngineArguments(known.mlagents_port, known.logFile, options)


def _summary(world: type[World], option: str) -> str:
    """What the constructor's docstring says about an option, in the form "`option`: what it does."."""
    for line in (inspect.getdoc(world.__init__) or "").splitlines():
        head, found, text = line.partition(":")
        if found and head.strip().strip("`") == option:
            return text.strip().rstrip(".")
    return "an option of this scene"
