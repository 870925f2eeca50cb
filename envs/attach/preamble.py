"""What a relay says to a trainer before the engine's bytes, and what it is answered: a line each.

    lanista-relay/1 carry TOKEN NAME
    ok

The name is `-` for an engine that nobody waits for by name. With `try` in place of `carry` no engine
follows: the relay only wants to know whether it would be let in. A refusal is `no REASON`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

LONGEST = 1024
"""Bytes of a line."""
_VERSION = "lanista-relay/1"
_NOBODY = "-"
_LINE = re.compile(rf"{_VERSION} (try|carry) ([!-~]+) ([A-Za-z0-9._-]{{1,64}})")


class PreambleError(ValueError):
    """A line that cannot be understood."""


@dataclass(frozen=True, slots=True)
class Preamble:
    """Who a relay says that it is."""

    token: str = field(repr=False)
    name: str | None = None
    """For whom the engine is that follows; None for anybody."""
    trial: bool = False
    """No engine follows."""

    def encode(self) -> bytes:
        """The line. Raises PreambleError for a name that cannot be sent."""
        line = f"{_VERSION} {'try' if self.trial else 'carry'} {self.token} {self.name or _NOBODY}"
        if not _LINE.fullmatch(line) or self.name == _NOBODY:
            raise PreambleError(
                f"{self.name!r} cannot be the name of an engine: letters, digits, '.', '_', '-'"
            )
        return line.encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Preamble:
        """From the line, without its end.

        Raises:
            PreambleError: It is none.
        """
        text = line.decode("ascii", "replace")
        found = _LINE.fullmatch(text)
        if found is None:
            if text.startswith("lanista-relay/") and not text.startswith(_VERSION + " "):
                raise PreambleError("its relay is of another version of Lanista")
            raise PreambleError("it does not begin as a relay does")
        verb, token, name = found.groups()
        return cls(token, None if name == _NOBODY else name, verb == "try")


def encode_answer(refusal: str | None) -> bytes:
    """Let in, or not for this reason."""
    if refusal is None:
        return b"ok\n"
    words = " ".join(refusal.split())
    return b"no " + words.encode()[: LONGEST - 8] + b"\n"


def decode_answer(line: bytes) -> str | None:
    """The reason of a refusal; None for a welcome.

    Raises:
        PreambleError: It is neither.
    """
    text = line.decode("utf-8", "replace")
    if text == "ok":
        return None
    if text.startswith("no "):
        return "".join(letter for letter in text[3:] if letter.isprintable())
    raise PreambleError("it does not answer as a trainer does")
