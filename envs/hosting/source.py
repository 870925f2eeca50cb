"""The environment that a process hosts, and its command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from mlagents_envs.base_env import BaseEnv

from ..engines.options import HOSTED, EngineOptions
from ..python import in_process
from ..python.sources import make_source
from ..scenes.options import UsageError

PROGRAM = "python -m lanista.envs.hosting"
_WORDS: dict[str, bool | None] = {"yes": True, "no": False, "auto": None}
_END = "--"
"""The word that precedes the environment's own arguments."""


@dataclass(frozen=True, slots=True)
class HostedSource:
    """A Python environment and its options."""

    path: str
    """The environment's path, as for `make_source`."""
    arguments: tuple[str, ...] = ()
    """The environment's own arguments, `--key value`."""
    with_state: bool = False
    self_play: bool | None = False
    """Whether one policy plays all seats; this and `with_state` are as for `make_source`."""

    def options(self) -> list[str]:
        """The command line of the engine that hosts the environment, after the path."""
        play = next(word for word, value in _WORDS.items() if value is self.self_play)
        state = ["--with-state"] if self.with_state else []
        return [*state, "--self-play", play, _END, *self.arguments]

    def make(self, seed: int, areas: int) -> BaseEnv:
        """Make the environment, with images of bytes as in the protocol. Raises as `make_source`."""
        return make_source(
            self.path,
            seed,
            self.arguments,
            areas,
            with_state=self.with_state,
            self_play=self.self_play,
            images="uint8",
        )


def hosted(options: EngineOptions) -> EngineOptions:
    """The options of the engine that hosts the environment in Python of these options."""
    source = HostedSource(
        str(options.path).strip(),
        options.additional_args,
        with_state=options.with_state,
        self_play=options.self_play,
    )
    return replace(options, path=HOSTED + source.path, additional_args=tuple(source.options()))


@dataclass(frozen=True, slots=True)
class HostArguments:
    """The parsed command line of a hosting process."""

    source: HostedSource
    port: int
    """The port on which the trainer listens."""
    log_file: str | None
    """The file to log to; None for standard error, "-" for standard output."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, self.format_usage())


def parse(arguments: Sequence[str]) -> HostArguments:
    """Parse a command line. Arguments of Unity players (with one dash) are skipped.

    Raises:
        UsageError: The command line is not valid.
    """
    parser = _parser()
    own, cut, theirs = list(arguments), _END, list[str]()
    if cut in own:
        own, theirs = own[: own.index(cut)], own[own.index(cut) + 1 :]
    given, others = parser.parse_known_args(own)
    strange = next((text for text in others if text.startswith("--")), None)
    if strange is not None:
        parser.error(f"unknown option {strange}; the environment's own arguments follow {_END}")
    if not in_process(given.env):
        parser.error(
            f"found the environment {given.env!r}; expected gymnasium:ID, pettingzoo:MODULE or "
            "python:MODULE:FUNCTION"
        )
    if given.mlagents_port is None:
        parser.error(
            "no --mlagents-port: a trainer starts such an engine, for example "
            f"`lanista-learn CONFIG.yaml --env {given.env} --env-workers 2`"
        )
    source = HostedSource(given.env, tuple(theirs), given.with_state, _WORDS[given.self_play])
    return HostArguments(source, given.mlagents_port, given.logFile)


def _parser() -> _Parser:
    parser = _Parser(
        prog=PROGRAM,
        description="A Python environment as an engine, for any trainer that speaks ML-Agents' protocol.",
        epilog=f"The environment's own arguments, --key value, follow {_END}.",
        allow_abbrev=False,
    )
    parser.add_argument("env", metavar="ENV", help="such as gymnasium:CartPole-v1 or python:mygame:make")
    parser.add_argument(
        "--mlagents-port", type=int, metavar="PORT", help="where the trainer listens; required"
    )
    parser.add_argument("-logFile", metavar="FILE", help="where to log ('-': standard output)")
    parser.add_argument("--with-state", action="store_true", help="agents observe the global state too")
    parser.add_argument(
        "--self-play",
        choices=list(_WORDS),
        default="no",
        help="one policy plays all seats of a turn-based game; auto: if it can",
    )
    return parser
