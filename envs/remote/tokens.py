"""The secret that relays show a trainer."""

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
SHORTEST, LONGEST = 16, 512
"""Characters of a token."""


class TokenError(ValueError):
    """There is no usable token where one should be; the message never shows it."""


def make_token() -> str:
    """A new secret of 256 random bits."""
    return secrets.token_urlsafe(32)


def same(given: str, expected: str) -> bool:
    """Whether two tokens are equal; takes as long for any wrong one."""
    return hmac.compare_digest(given.encode(), expected.encode())


def find_token(file: str | None, environment: Mapping[str, str]) -> str | None:
    """The token in the file, or else in the variable LANISTA_TOKEN; None where neither is.

    Raises:
        TokenError: The file cannot be read, or what is found is no token.
    """
    if file is not None:
        path = Path(file).expanduser()
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise TokenError(
                f"the token file {path} cannot be read: {getattr(error, 'strerror', None) or 'no text'}"
            ) from error
        _warn_of_readers(path)
        return checked(text, f"the token file {path}")
    if VARIABLE in environment:
        return checked(environment[VARIABLE], f"the variable {VARIABLE}")
    return None


def checked(text: str, where: str) -> str:
    """The token, if it can be one.

    Raises:
        TokenError: It is empty, too short, or has other characters than a token has.
    """
    token = text.strip()
    if not token:
        raise TokenError(f"{where} is empty; a token has {SHORTEST} to {LONGEST} characters")
    if not SHORTEST <= len(token) <= LONGEST:
        raise TokenError(
            f"{where} holds {len(token)} characters; a token has {SHORTEST} to {LONGEST}. Let the trainer "
            "make one: --token-file with a file that does not exist yet"
        )
    if not all("!" <= letter <= "~" for letter in token):
        raise TokenError(
            f"{where} holds more than one word, or letters beyond ASCII; a token is one word of it"
        )
    return token


def write_token(file: str) -> str:
    """Make a token and write it to a new file that this user alone may read.

    Raises:
        TokenError: The file cannot be written.
    """
    path, token = Path(file).expanduser(), make_token()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:  # another's file, if it is there meanwhile
        raise TokenError(f"the token file {path} cannot be written: {error.strerror}") from error
    try:
        with open(descriptor, "w") as made:
            made.write(token + "\n")
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        raise TokenError(f"the token file {path} cannot be written: {error.strerror}") from error
    return token


def _warn_of_readers(path: Path) -> None:
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        logger.warning("Other users of this machine may read the token in %s: chmod 600 %s", path, path)
