"""A parser of command lines whose errors are one line with a remedy, without the pages of usage above it."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from .errors import did_you_mean

_STRANGE = "unrecognized arguments: "
"""How argparse begins the message about arguments that it does not know."""
_REPLACED = {
    "--worker-id": "Ports are found without it: each engine gets a free one, and --base-port N gives the "
    "first one port N."
}
"""What to say of flags that ML-Agents once had."""
TOKEN_FLAG = "--token-file"  # noqa: S105 (no secret)
_SECRET = re.compile(r"--?(token|password|passwd|secret|api-?key)s?\b(?!-file)", re.IGNORECASE)


def secret_flag(arguments: Sequence[str]) -> str | None:
    """Why a command line is refused that seems to hold a secret; None otherwise. The secret is not repeated.

    `--token SECRET` would else be short for `--token-file`, and its value be shown as a file's name.
    """
    for text in arguments:
        if text == "--env-args":  # the rest is the engine's
            return None
        flag = text.partition("=")[0]
        short = flag.startswith("--to") and TOKEN_FLAG.startswith(flag) and flag != TOKEN_FLAG
        if short or _SECRET.match(flag):
            return (
                f"{flag} is no flag: a secret on the command line can be read by every process of this "
                f"machine. Put the token into a file and give {TOKEN_FLAG} FILE, or into the variable "
                "LANISTA_TOKEN. If it was typed here, make a new one."
            )
    return None


class OneLineParser(argparse.ArgumentParser):
    """`argparse.ArgumentParser` with short errors, which name the nearest known flag.

    `more_of` names a positional argument of any number whose values may also follow flags, where
    argparse itself has no place for them any more. Flags in `give_way` do not make an abbreviation of another
    flag ambiguous.
    """

    def __init__(self, *, more_of: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._more_of = more_of
        self.give_way: set[str] = set()

    @property
    def long_flags(self) -> list[str]:
        """The flags with two hyphens."""
        return [text for text in self._option_string_actions if text.startswith("--")]

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> argparse.Namespace:
        """The arguments. Ends the process with status 2 if they cannot be read."""
        if secret := secret_flag(sys.argv[1:] if args is None else args):
            self.exit(2, f"{self.prog}: error: {secret}\n")
        known: argparse.Namespace
        known, strange = self.parse_known_args(args, namespace)
        flag = next((text for text in strange if text.startswith("-")), None)
        if flag is None and self._more_of is not None:
            setattr(known, self._more_of, [*getattr(known, self._more_of), *strange])
        elif strange:
            self.error(f"{_STRANGE}{' '.join(strange)}")
        return known

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """The arguments, and those that are not known; what follows `--env-args` is not looked at.

        argparse itself looks for flags there too, and refuses what could be short for several of them, such
        as the `--n` of an environment.
        """
        given = list(sys.argv[1:] if args is None else args)
        at, rest = self._takes_rest(given)
        known, strange = super().parse_known_args(given[: at + 1], namespace)
        if rest is not None:
            setattr(known, rest.dest, given[at + 1 :])
        return known, strange

    def _takes_rest(self, given: Sequence[str]) -> tuple[int, argparse.Action | None]:
        """Where the first flag stands that takes the rest of the line, and the flag; without one, the end."""
        for at, text in enumerate(given):
            if text == "--":
                break
            action = self._option_string_actions.get(text)
            if action is not None and action.nargs == argparse.REMAINDER:
                return at, action
        return len(given), None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse what is none of the choices; names the nearest."""
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            hint = did_you_mean(str(value), known)
            message = f"invalid choice: {value!r} (choose from {', '.join(known)}).{hint}"
            raise argparse.ArgumentError(action, message)

    def _get_option_tuples(self, option_string: str) -> list[Any]:
        """The flags that `option_string` may be short for: those that do not give way, if there are any."""
        base: Any = super()  # not all stubs know of the method
        found: list[Any] = base._get_option_tuples(option_string)
        first = [one for one in found if self.give_way.isdisjoint(one[0].option_strings)]
        return first or found

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line and end the process with status 2."""
        if message.startswith(_STRANGE):
            words = message.removeprefix(_STRANGE).split()
            flag = next((word for word in words if word.startswith("-")), "")
            name = flag.partition("=")[0]
            message += (
                f". {_REPLACED[name]}" if name in _REPLACED else f".{did_you_mean(name, self.long_flags)}"
            )
        stop = "" if message.endswith((".", "?")) else "."
        self.exit(2, f"{self.prog}: error: {message}{stop} {self.prog} --help lists all flags.\n")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End the process; a terminal that cannot show a character of the message gets its code."""
        if message:
            stream = sys.stderr
            encoding = getattr(stream, "encoding", None) or "utf-8"
            stream.write(message.encode(encoding, "backslashreplace").decode(encoding))
        sys.exit(status)
