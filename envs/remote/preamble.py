"""The lines that a relay and the trainer exchange before an engine's bytes.

The relay sends the preamble, which the trainer answers with one line:

    lanista-relay/1 carry TOKEN NAME
    ok

The name is `-` for an engine that is not expected by name. With `try` instead of `carry` no engine follows:
the relay only asks whether it would be admitted. A rejection is `no REASON`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MAX_LINE = 1024
"""Bytes of a line, at most."""
_VERSION = "lanista-relay/1"
_ANYONE = "-"
_LINE = re.compile(rf"{_VERSION} (try|carry) ([!-~]+) ([A-Za-z0-9._-]{{1,64}})")


class PreambleError(ValueError):
    """A line that does not follow the protocol."""


@dataclass(frozen=True, slots=True)
class Preamble:
    """How a relay identifies itself and its engine."""

    token: str = field(repr=False)
    name: str | None = None
    """The name under which the engine is expected; None if it is not expected by name."""
    probe: bool = False
    """No engine follows."""

    def encode(self) -> bytes:
        """Encode the line. Raises PreambleError for a name that cannot be sent."""
        line = f"{_VERSION} {'try' if self.probe else 'carry'} {self.token} {self.name or _ANYONE}"
        if not _LINE.fullmatch(line) or self.name == _ANYONE:
            raise PreambleError(
                f"{self.name!r} cannot be the name of an engine: letters, digits, '.', '_', '-'"
            )
        return line.encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Preamble:
        """Decode the line, without its end.

        Raises:
            PreambleError: It is not a preamble.
        """
        text = line.decode("ascii", "replace")
        found = _LINE.fullmatch(text)
        if found is None:
            if text.startswith("lanista-relay/") and not text.startswith(_VERSION + " "):
                raise PreambleError("its relay belongs to another version of Lanista")
            raise PreambleError("it does not speak the relay protocol")
        verb, token, name = found.groups()
        return cls(token, None if name == _ANYONE else name, verb == "try")


def encode_answer(refusal: str | None) -> bytes:
    """Encode the answer: admitted, or rejected for this reason."""
    if refusal is None:
        return b"ok\n"
    words = " ".join(refusal.split())
    return b"no " + words.encode()[: MAX_LINE - 8] + b"\n"


def decode_answer(line: bytes) -> str | None:
    """Decode the answer: the reason of a rejection, or None.

    Raises:
        PreambleError: It is not an answer.
    """
    text = line.decode("utf-8", "replace")
    if text == "ok":
        return None
    if text.startswith("no "):
        return "".join(letter for letter in text[3:] if letter.isprintable())
    raise PreambleError("it does not answer as a trainer does")
