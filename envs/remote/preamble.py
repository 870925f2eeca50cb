"""The lines that a relay and the trainer exchange before an engine's bytes.

The relay sends the preamble, which the trainer answers with one line:

    lanista-relay/1 carry TOKEN NAME
    ok

The name is `-` for an engine that is not expected by name. With `try` instead of `carry` no engine follows:
the relay only asks whether it would be admitted. A rejection is `no REASON`, or `later SECONDS REASON` if the
same preamble may be admitted after this time; a relay that does not know `later` tries again, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MAX_LINE = 1024
"""Bytes of a line, at most."""
_VERSION = "lanista-relay/1"
_ANYONE = "-"
_LINE = re.compile(rf"{_VERSION} (try|carry) ([!-~]+) ([A-Za-z0-9._-]{{1,64}})")
_REFUSAL = re.compile(r"(?:no|later ([0-9]{1,4})) (.*)", re.DOTALL)
_LONGEST_WAIT = 9999


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


@dataclass(frozen=True, slots=True)
class Refusal:
    """That a relay is not admitted."""

    reason: str
    seconds: int | None = None
    """When the same relay may be admitted if it asks again; None if it will not be."""


def encode_answer(refusal: Refusal | None) -> bytes:
    """Encode the answer: admitted, or rejected."""
    if refusal is None:
        return b"ok\n"
    verb = "no" if refusal.seconds is None else f"later {min(refusal.seconds, _LONGEST_WAIT)}"
    words = " ".join(refusal.reason.split())
    return f"{verb} {words}".encode()[: MAX_LINE - 1] + b"\n"


def decode_answer(line: bytes) -> Refusal | None:
    """Decode the answer: a rejection, or None.

    Raises:
        PreambleError: It is not an answer.
    """
    text = line.decode("utf-8", "replace")
    if text == "ok":
        return None
    found = _REFUSAL.fullmatch(text)
    if found is None:
        raise PreambleError("it does not answer as a trainer does")
    seconds, words = found.groups()
    reason = "".join(letter for letter in words if letter.isprintable())
    return Refusal(reason, None if seconds is None else int(seconds))
