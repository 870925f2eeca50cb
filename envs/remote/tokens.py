"""The secret token that relays present to a trainer."""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)

VARIABLE = "LANISTA_TOKEN"
MIN_LENGTH, MAX_LENGTH = 16, 512
"""Characters of a token."""


class TokenError(ValueError):
    """A token is missing or not usable; the message never contains it."""


_RANDOM_BYTES = 32
_MADE_LENGTH = -(-_RANDOM_BYTES * 8 // 6)
"""Characters of 6 bits each."""


def make_token() -> str:
    """A new secret of 256 random bits."""
    return secrets.token_urlsafe(_RANDOM_BYTES)


def cannot_be_guessed(token: str) -> bool:
    """Whether a token is as long as those that are made here, and so needs no slowing of guesses."""
    return len(token) >= _MADE_LENGTH


def same(given: str, expected: str) -> bool:
    """Whether two tokens are equal, in constant time."""
    return hmac.compare_digest(given.encode(), expected.encode())


def find_token(file: str | None, environment: Mapping[str, str]) -> str | None:
    """The token in the file, or else in the variable LANISTA_TOKEN; None if there is neither.

    Raises:
        TokenError: The file cannot be read, or does not contain a token.
    """
    if file is not None:
        path = Path(file).expanduser()
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            cause = getattr(error, "strerror", None) or "it is not text"
            raise TokenError(f"the token file {path} cannot be read: {cause}") from error
        _warn_if_readable(path)
        return check_token(text, f"the token file {path}")
    if VARIABLE in environment:
        return check_token(environment[VARIABLE], f"the variable {VARIABLE}")
    return None


def check_token(text: str, where: str) -> str:
    """Check a token; returns it without surrounding space.

    Raises:
        TokenError: It is empty, too short, too long, or contains other characters than a token may.
    """
    token = text.strip()
    if not token:
        raise TokenError(f"{where} is empty; a token has {MIN_LENGTH} to {MAX_LENGTH} characters")
    if not MIN_LENGTH <= len(token) <= MAX_LENGTH:
        raise TokenError(
            f"{where} has {len(token)} characters; a token has {MIN_LENGTH} to {MAX_LENGTH}. Let the trainer "
            "make one: --token-file with a file that does not exist yet"
        )
    if not all("!" <= letter <= "~" for letter in token):
        raise TokenError(
            f"{where} contains more than one word, or non-ASCII characters; a token is one ASCII word"
        )
    return token


def write_token(file: str) -> str:
    """Make a token and write it to a new file that only this user may read.

    Raises:
        TokenError: The file cannot be written.
    """
    path, token = Path(file).expanduser(), make_token()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:  # for example because another process has created it
        raise TokenError(f"the token file {path} cannot be written: {error.strerror}") from error
    try:
        with open(descriptor, "w") as made:
            made.write(token + "\n")
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        raise TokenError(f"the token file {path} cannot be written: {error.strerror}") from error
    return token


def _warn_if_readable(path: Path) -> None:
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        logger.warning("Other users of this machine can read the token in %s: chmod 600 %s", path, path)
