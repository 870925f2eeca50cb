"""The options of a scene, declared once in a dataclass, and the command line that sets them."""

import argparse
import inspect
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..protocol.dialect import UNITY, UNREAL, Dialect
from .world import Batches, Parameters, World

Options = Mapping[str, Any]
"""A world's options by name, as far as they were given: integers, floats, strings."""

SIZES = ("full", "small")

_DESTINATION_PREFIX = "option "

Value = TypeVar("Value", int, float, str)


def option(
    full: Value,
    description: str,
    *,
    small: Value | None = None,
    choices: Sequence[str] = (),
    may_be_zero: bool = False,
    decision_period: int = 1,
) -> Value:
    """Declare an option: the default of a field of `SceneOptions`.

    Args:
        full: Its value in the size `full`; its type is the option's type.
        description: What it sets, for the help.
        small: Its value in the size `small`; None for the same.
        choices: The texts that are allowed.
        may_be_zero: It counts what a world can do without: 0 is a value, a negative number stands for the
            size's. Of other options 0 (or an empty text) stands for the size's value.
        decision_period: Of an option that counts physics steps, those of a decision: the least value.
    """
    metadata = {
        "description": description,
        "sizes": {"full": full, "small": full if small is None else small},
        "choices": choices,
        "may_be_zero": may_be_zero,
        "decision_period": decision_period,
    }
    default: Value = field(default=full, metadata=metadata)
    return default


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneOptions:
    """The options of a scene of several sizes; every field is declared by `option`.

    Raises:
        ValueError: A value makes no world.
    """

    scene: ClassVar[str]
    """Its name, for messages."""

    areas: int = option(1, "how many areas there are")
    size: str = option(
        "full",
        "full is the original, small is for learning within minutes",
        small="small",
        choices=SIZES,
    )

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, str):
                self._check_text(item.name, value, item.metadata["choices"])
            else:
                self._check_number(item.name, value, item.metadata)
        self.check()

    def check(self) -> None:
        """Refuse values that do not fit together, with a ValueError; of a scene that has any."""

    @classmethod
    def read(cls: "type[OptionsType]", given: Options) -> "OptionsType":
        """The options of `given["size"]`, with the others that are given in place of the size's own.

        Raises:
            TypeError: There is no such option.
            ValueError: No such size, or values that make no world.
        """
        size = given.get("size", "full")
        if size not in SIZES:
            near = get_close_matches(size, SIZES, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"{cls.scene} has no size {size!r}.{hint} Sizes: {', '.join(SIZES)}.")
        values = {item.name: item.metadata["sizes"][size] for item in fields(cls)}
        may_be_zero = {item.name for item in fields(cls) if item.metadata["may_be_zero"]}
        for name, value in given.items():
            is_given = not value < 0 if name in may_be_zero else bool(value)
            if is_given or name == "areas":
                values[name] = value
        return cls(**values)

    def _check_text(self, name: str, value: str, choices: Sequence[str]) -> None:
        if value not in choices:
            raise ValueError(f"{self.scene} has no {name} {value!r}; it has {', '.join(sorted(choices))}.")

    def _check_number(self, name: str, value: float, metadata: Mapping[str, Any]) -> None:
        flag, period = name.replace("_", "-"), metadata["decision_period"]
        if not (0 < value < math.inf or (value == 0 and metadata["may_be_zero"])):
            raise ValueError(f"{self.scene}: {flag} is {value}; it must be more than 0, and finite.")
        if value < period > 1:
            raise ValueError(
                f"{self.scene}: {flag} is {value}; it must be at least {period}, the physics steps of a "
                "decision."
            )


OptionsType = TypeVar("OptionsType", bound=SceneOptions)


def senses_option(*, small: str | None = None, **kinds: str) -> str:
    """Declare the option `senses`: the kinds of observations, each with its description.

    The size `full` has the first kind, `small` the last one unless `small` names another.
    """
    description = " or ".join(f"{kind} ({text})" for kind, text in kinds.items())
    first, *_, last = kinds
    return option(first, description, small=small or last, choices=tuple(kinds))


class SceneWorld(World, Generic[OptionsType]):
    """A world of several areas with the options of a dataclass."""

    options_type: ClassVar[type[Any]]

    gravity: ClassVar[float | None] = None
    """Downward, m/s²; of a scene whose `dynamics` follow the environment parameter `gravity` at once."""
    dynamics: Any

    def __init__(self, **given: int | float | str) -> None:
        """`given`: fields of `options_type`; omitted ones take the values of `size`."""
        self.options: OptionsType = self.options_type.read(given)
        self.areas = self.options.areas
        self._agent_sets: Sequence[Any] = ()
        """The `IndependentAgents` or `AgentGroups` of the world, whose rewards a reset clears."""
        self._age: NDArray[np.intp] = np.zeros(self.areas, np.intp)
        """[areas], steps since the start of each episode."""
        self._random = np.random.default_rng(0)
        self._parameters = Parameters()
        self._revision = -1

    def reset(self, random: np.random.Generator, parameters: Parameters) -> Batches:
        """Start an episode in every area."""
        self._random, self._parameters, self._revision = random, parameters, -1
        self._apply_gravity()
        for agents in self._agent_sets:
            agents.reset()
        self._start_episodes(np.arange(self.areas))
        return self._request_decisions()

    def _apply_gravity(self) -> None:
        """Gravity follows its parameter without a limit, also within an episode."""
        if self.gravity is not None and self._revision != self._parameters.revision:
            self._revision = self._parameters.revision
            self.dynamics.gravity = self._parameters.get("gravity", self.gravity)

    @abstractmethod
    def _start_episodes(self, which: NDArray[np.intp]) -> None:
        """Start episodes in these areas [k]."""

    @abstractmethod
    def _request_decisions(self) -> Batches:
        """The agents that ended since the last call, and those that request decisions."""


class UsageError(ValueError):
    """The command line cannot be understood; the message, one line, is for the user."""

    def __init__(self, message: str, usage: str = "") -> None:
        super().__init__(message)
        self.usage = usage
        """All that the command line may hold."""


@dataclass(frozen=True, slots=True)
class EngineArguments:
    """The command line of a scene, parsed."""

    port: int
    """The port at which the trainer listens."""
    dialect: Dialect
    """What it speaks: it starts a game of Unreal with another argument than one of Unity."""
    log_file: str | None
    """Where to log; None is the standard error output, "-" the standard output."""
    options: Options
    """The scene's own, as far as they were given."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, self.format_help())


def options_of(world: type[World]) -> dict[str, tuple[type, str]]:
    """The options of a world by name: each one's type, and what the help says about it.

    They are the fields of its `options_type`, or else the keyword parameters of its constructor.
    """
    if world.options_type is not None:
        return {
            item.name: (type(item.default), _describe(item.metadata)) for item in fields(world.options_type)
        }
    return {
        name: (type(p.default), f"{_summary(world, name)} (default {p.default})")
        for name, p in inspect.signature(world).parameters.items()
        if p.default is not p.empty
    }


def parse(world: type[World], arguments: Sequence[str], program: str) -> EngineArguments:
    """Parse the command line of `world` as an engine.

    Arguments of Unity and Unreal players (one dash) that mean nothing here are skipped.

    Raises:
        UsageError: An unknown option, a value of the wrong type, or no port.
    """
    parser = _parser(world, program)
    given = _parse(parser, world, arguments)
    port, dialect = given["mlagents_port"], UNITY
    if port is None:
        port, dialect = given["mlAgentPort"], UNREAL
    if port is None:
        parser.error(
            "no --mlagents-port: a scene is started by a trainer, for example by "
            "`lanista-learn CONFIG.yaml --env scene:NAME`"
        )
    return EngineArguments(port, dialect, given["logFile"], _options(given))


def parse_options(world: type[World], arguments: Sequence[str], program: str) -> Options:
    """Parse the options of `world` where no trainer starts it.

    Raises:
        UsageError: An unknown option, or a value of the wrong type.
    """
    return _options(_parse(_parser(world, program), world, arguments))


def _parser(world: type[World], program: str) -> _Parser:
    parser = _Parser(prog=program, description=inspect.getdoc(world), allow_abbrev=False)
    parser.add_argument(
        "--mlagents-port", type=int, metavar="PORT", help="where the trainer listens; required"
    )
    parser.add_argument(
        "-mlAgentPort", type=int, metavar="PORT", help="the same of a trainer that starts games of Unreal"
    )
    parser.add_argument(
        "-logFile", "-abslog", dest="logFile", metavar="FILE", help="where to log ('-': standard output)"
    )
    for name, (kind, description) in options_of(world).items():
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            dest=_DESTINATION_PREFIX + name,
            type=kind,
            default=argparse.SUPPRESS,
            metavar=kind.__name__.upper(),
            help=description,
        )
    return parser


def _parse(parser: _Parser, world: type[World], arguments: Sequence[str]) -> dict[str, Any]:
    known, others = parser.parse_known_args(list(arguments))
    unknown = next((text for text in others if text.startswith("--")), None)
    if unknown is not None:
        options = [f"--{name.replace('_', '-')}" for name in options_of(world)]
        near = get_close_matches(unknown, options, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        parser.error(f"unknown option {unknown}.{hint} Options: {', '.join(options)}.")
    return vars(known)


def _options(given: Options) -> Options:
    prefix = _DESTINATION_PREFIX
    return {key.removeprefix(prefix): value for key, value in given.items() if key.startswith(prefix)}


def _describe(metadata: Mapping[str, Any]) -> str:
    """The help for an option declared by `option`."""
    full, small = metadata["sizes"]["full"], metadata["sizes"]["small"]
    default = f"{full}" if small in (full, "small") else f"{full}, in size small {small}"
    return f"{metadata['description']} (default {default})"


def _summary(world: type[World], name: str) -> str:
    """What the constructor's docstring says about an option, in the form "`option`: what it does."."""
    for line in (inspect.getdoc(world.__init__) or "").splitlines():
        head, found, text = line.partition(":")
        if found and head.strip().strip("`") == name:
            return text.strip().rstrip(".")
    return "an option of this scene"
