"""`lanista COMMAND ...`: the subcommands, each in a module that is loaded only when it is used."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..._tools import COMMANDS, COMPLETION_VARIABLE, load, provided
from ..utils.argparse import OneLineParser, secret_flag
from ..utils.errors import CommandError, nearest
from ..utils.guard import INTERRUPTED, guarded
from ..utils.logging import print_error, show_any_letter

LEARN = "learn"
OFTEN_MEANT = {
    "train": LEARN,
    "fit": LEARN,
    "run": LEARN,
    "test": "play",
    "eval": "play",
    "enjoy": "play",
    "new": "init",
}
"""What other tools call a command, and its name here."""
T = TypeVar("T")


def main(argv: Sequence[str] | None = None) -> None:
    """The console script: ends the process with the command's status."""
    arguments = sys.argv[1:] if argv is None else argv
    sys.exit(guarded("lanista", lambda: run(arguments)))


def run(argv: Sequence[str]) -> int:
    """Run the command of these arguments (without the program's name) and return its exit status."""
    show_any_letter()
    if COMPLETION_VARIABLE in os.environ and (completion := provided("completion")) is not None:
        return _guarded("completion", _complete, completion)
    if argv and argv[0] == LEARN:
        return _learn(argv[1:])
    name = argv[0] if argv and argv[0] in COMMANDS else None
    if name is None and argv and not argv[0].startswith("-"):
        print_error(
            "lanista", f"there is no command {argv[0]!r}.{_meant(argv[0])} lanista --help lists them."
        )
        return 2
    parser, own = _parsers(name)
    if name is not None and (secret := secret_flag(argv)):
        print_error(f"lanista {name}", secret)
        return 2
    if name is None or own is None:
        parser.parse_args(list(argv))
        parser.print_help()
        return 2
    arguments = _parsed(own, list(argv[1:]))
    return _guarded(name, load(COMMANDS[name].command).run, arguments)


def _meant(word: str) -> str:
    """` Did you mean ...?` with a command; empty if none is near."""
    near = nearest(word, [LEARN, *COMMANDS, *OFTEN_MEANT])
    return f" Did you mean {OFTEN_MEANT.get(near, near)}?" if near else ""


def _learn(argv: Sequence[str]) -> int:
    """Train with one seed, or with several."""
    if any(word.startswith(("--seeds", "-h", "--help")) for word in argv):
        seeds = provided("seeds")
        if seeds is not None and seeds.help_asked(argv):
            seeds.make_whole_parser().print_help()
            return 0
        if seeds is not None and seeds.asked(argv):
            return _guarded(LEARN, seeds.run, argv)
    from ..learn import run as learn

    return learn(argv)


def _parsed(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """The arguments of a command; flags may stand between those without flags: `export X --godot OUT`."""
    if parser._subparsers is not None:  # argparse does not mix them with subcommands
        return parser.parse_args(words)
    return parser.parse_intermixed_args(words)


def _parsers(chosen: str | None) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser | None]:
    """The parser of all commands, of which only the chosen one has its arguments, and that one's own."""
    from ..._version import __version__

    parser = OneLineParser(prog="lanista", description="Trains agents that live in game engines.")
    parser.add_argument("--version", action="version", version=f"lanista {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    commands.add_parser(LEARN, help="train agents: the same as lanista-learn, and --seeds", add_help=False)
    for name, command in COMMANDS.items():
        description = f"{command.summary[0].upper()}{command.summary[1:]}."
        own = commands.add_parser(name, help=command.summary, description=description)
        if name == chosen:
            load(command.command).add_arguments(own)
    return parser, commands.choices[chosen] if chosen else None


def _complete(completion: Any) -> int:
    """Tell the shell what may follow the words of its line; ends the process."""
    words = completion.words_before()
    chosen = words[0] if words and words[0] in COMMANDS else None
    parser, _ = _parsers(chosen)
    if LEARN in words[:1] and (seeds := provided("seeds")) is not None:
        completion.replace_command(parser, LEARN, seeds.make_whole_parser())
    completion.answer(parser)
    return 0


def _guarded(name: str, command: Callable[[T], int], arguments: T) -> int:
    try:
        return command(arguments)
    except CommandError as error:
        print_error(f"lanista {name}", error)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    main()
