"""The command line of a scene: what a Unity executable is given, and the scene's own options.

A scene's settings by the name of a size, with single ones changed.
"""

import argparse
import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar

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


@dataclass(frozen=True, slots=True)
class SceneSetting:
    """What a scene of several sizes settles: numbers, and texts, of which those of the sizes are allowed."""


Setting = TypeVar("Setting", bound=SceneSetting)


def choose(
    scene: str,
    settings: Mapping[str, Setting],
    size: str,
    areas: int,
    given: Mapping[str, Any],
    also: Mapping[str, str] | None = None,
) -> Setting:
    """The setting called `size`, with what is `given` in place of its own.

    Args:
        scene: Its name, for messages.
        settings: By the names of the sizes.
        size: The one to choose.
        areas: How many areas the scene is to have.
        given: By the setting's fields. What may be 0 (see `_may_be_zero`) is not given where it is negative,
            everything else where it is 0 or empty.
        also: By the setting's fields, a text that is allowed although no size has it.

    Raises:
        ValueError: No such size, or a number that makes no world.
    """
    if size not in settings:
        near = get_close_matches(size, settings, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{scene} has no size {size!r}.{hint} Sizes: {', '.join(settings)}.")
    changed = replace(settings[size], **{name: v for name, v in given.items() if _is_given(name, v)})
    for name, value in {"areas": areas, **asdict(changed)}.items():
        if isinstance(value, str):
            known = {getattr(setting, name) for setting in settings.values()}
            known |= {text for field, text in (also or {}).items() if field == name}
            if value not in known:
                raise ValueError(f"{scene} has no {name} {value!r}; it has {', '.join(sorted(known))}.")
        elif not (0 < value < math.inf or (value == 0 and _may_be_zero(name))):
            raise ValueError(
                f"{scene}: {name.replace('_', '-')} is {value}; it must be more than 0, and finite."
            )
    return changed


def _may_be_zero(name: str) -> bool:
    """Whether a setting counts what a world can do without."""
    return name == "linger" or name.endswith(("blocks", "columns", "goals"))


def _is_given(name: str, value: Any) -> bool:
    return not value < 0 if _may_be_zero(name) else bool(value)
