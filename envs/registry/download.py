"""Files from the network: whole, checked, or not at all."""

from __future__ import annotations

import hashlib
import http.client
import logging
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from ..errors import RegistryError

logger = logging.getLogger(__name__)

ATTEMPTS = 5
TIMEOUT = 30.0
"""Seconds without a byte before an attempt is given up."""
PAUSE = 1.0
"""Seconds before the second attempt; doubled before each further one."""
_CHUNK = 1 << 20
_TELL = 10.0
"""Seconds between two lines about the progress."""
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""HTTP statuses that may be gone the next time."""


class _IncompleteError(OSError):
    """The connection ended before the file did."""


class _NoWayDown(urllib.request.HTTPRedirectHandler):
    """Follows no redirection from an encrypted connection to an open one; the base class none to a file."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str) -> Any:
        """As the base class does."""
        try:
            scheme = urlsplit(newurl).scheme.lower()
        except ValueError as error:
            raise RegistryError(f"{req.full_url} leads to {newurl!r}, which is no address.") from error
        if req.type == "https" and scheme != "https":
            raise RegistryError(
                f"{req.full_url} leads to {newurl}, which is not encrypted: it is not followed."
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_opener = urllib.request.build_opener(_NoWayDown)


def is_url(text: str) -> bool:
    """Whether this names something on the network."""
    return text.lower().startswith(("http://", "https://"))


def download(url: str, target: Path) -> tuple[str, int]:
    """Write the file at `url` to `target`, trying several times.

    Returns:
        The SHA-256 of its bytes in hexadecimal digits, and their number.

    Raises:
        RegistryError: it cannot be had, or the disk has no room for it; nothing is left at `target`.
    """
    pause = PAUSE
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _attempt(url, target)
        except (OSError, http.client.HTTPException) as error:
            target.unlink(missing_ok=True)
            if attempt == ATTEMPTS or not _may_pass(error):
                tries = f" after {attempt} attempts" if attempt > 1 else ""
                raise RegistryError(
                    f"{url} could not be downloaded{tries}: {_cause(error)}. Look at the address and the "
                    "connection, then try again."
                ) from error
            logger.warning("%s: %s; trying again in %.0f s.", url, _cause(error), pause)
            time.sleep(pause)
            pause *= 2
        except BaseException:
            target.unlink(missing_ok=True)
            raise
    raise AssertionError("unreachable")


def read(url: str, most: int) -> bytes:
    """The bytes of a small file.

    Raises:
        RegistryError: it cannot be had, or is larger than `most` bytes.
    """
    try:
        with _opened(url) as (answer, _):
            data: bytes = answer.read(most + 1)
    except (OSError, http.client.HTTPException) as error:
        raise RegistryError(f"{url} could not be read: {_cause(error)}.") from error
    if len(data) > most:
        raise RegistryError(f"{url} is larger than {most} bytes, so it is no manifest.")
    return data


def size_text(count: float) -> str:
    """A number of bytes for people."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def require_room(folder: Path, size: int, what: str) -> None:
    """Refuse to fill the disk.

    Raises:
        RegistryError: there are fewer than `size` bytes free.
    """
    free = shutil.disk_usage(folder).free
    if size > free:
        raise RegistryError(
            f"{what} takes {size_text(size)}, and {folder} has {size_text(free)} left: free some space, or "
            "name another folder by the variable LANISTA_CACHE."
        )


def _attempt(url: str, target: Path) -> tuple[str, int]:
    with _opened(url) as (answer, length), open(target, "xb") as file:
        if length is not None:
            require_room(target.parent, length, url)
            logger.info("Downloading %s (%s).", url, size_text(length))
        return _copy(answer, file, length)


def _copy(answer: Any, file: BinaryIO, length: int | None) -> tuple[str, int]:
    digest, count, told = hashlib.sha256(), 0, time.monotonic()
    while chunk := answer.read(_CHUNK):
        file.write(chunk)
        digest.update(chunk)
        count += len(chunk)
        if time.monotonic() - told > _TELL:
            told = time.monotonic()
            logger.info("%s%s so far.", size_text(count), f" of {size_text(length)}" if length else "")
    if length is not None and count != length:
        raise _IncompleteError(f"the connection ended after {count} of {length} bytes")
    return digest.hexdigest(), count


@contextmanager
def _opened(url: str) -> Iterator[tuple[Any, int | None]]:
    """The answer of the server, and how many bytes it announces."""
    if not is_url(url):
        raise RegistryError(f"{url!r} is no address of the web: expected one that begins with https://.")
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "lanista"})
    except ValueError as error:
        raise RegistryError(f"{url!r} is no address: {error}.") from error
    with _opener.open(request, timeout=TIMEOUT) as answer:
        announced = answer.headers.get("Content-Length", "")
        yield answer, int(announced) if announced.isdecimal() else None


def _may_pass(error: Exception) -> bool:
    if isinstance(error, urllib.error.HTTPError):
        return error.code in _PASSING
    # Of the disk, not of the network.
    return not (
        type(error) in (OSError, PermissionError, FileNotFoundError) and getattr(error, "errno", None)
    )


def _cause(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server says {error.code} {error.reason}"
    reason = getattr(error, "reason", None) or error
    return str(reason).strip().rstrip(".") or type(error).__name__
