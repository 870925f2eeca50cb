"""Downloads by pooch: a whole file, or none."""

from __future__ import annotations

import logging
import shutil
import ssl
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import urljoin, urlsplit

from ..errors import RegistryError

if TYPE_CHECKING:
    from requests import Response

logger = logging.getLogger(__name__)

ATTEMPTS = 5
TIMEOUT = 30.0
"""Seconds without a byte after which an attempt fails."""
_CHUNK = 1 << 16
_LOG_INTERVAL = 10.0
"""Seconds between two progress messages."""
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
"""HTTP statuses that are worth another attempt."""


def is_url(text: str) -> bool:
    """Whether `text` is an address on the web."""
    return text.lower().startswith(("http://", "https://"))


def download(url: str, target: Path, attempts: int = ATTEMPTS, limit: int | None = None) -> None:
    """Download the file at `url` to `target`, in an existing folder.

    Args:
        url: An http:// or https:// address.
        target: The file to write; it appears when it is complete.
        attempts: How often to try; errors that another attempt would not cure are not retried.
        limit: The most bytes to accept; None for what the disk has room for.

    Raises:
        RegistryError: The download failed, is larger than `limit`, or does not fit on the disk.
    """
    import pooch  # deferred: with requests it costs 150 ms

    if not is_url(url):
        raise RegistryError(f"{url!r} is not a web address: expected one that starts with https://.")
    pooch.get_logger().setLevel(logging.ERROR)  # the messages below say the same, and more
    files = pooch.create(
        target.parent, "", registry={target.name: None}, urls={target.name: url}, retry_if_failed=attempts - 1
    )
    files.fetch(target.name, downloader=_Download(target.parent, attempts, limit))


def read(url: str, limit: int) -> bytes:
    """Read the small file at `url`, in one attempt.

    Raises:
        RegistryError: The file cannot be read, or is larger than `limit` bytes.
    """
    with TemporaryDirectory() as folder:
        target = Path(folder) / "file"
        download(url, target, attempts=1, limit=limit)
        return target.read_bytes()


def size_text(count: float) -> str:
    """A number of bytes, for people."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def require_room(folder: Path, size: int, what: str) -> None:
    """Refuse to fill the disk.

    Raises:
        RegistryError: Fewer than `size` bytes are free.
    """
    free = shutil.disk_usage(folder).free
    if size > free:
        raise RegistryError(
            f"{what} takes {size_text(size)}, and {folder} has {size_text(free)} left: free some space, or "
            "name another folder by the variable LANISTA_CACHE."
        )


class _Download:
    """A downloader for pooch, which calls it once per attempt; also the file that the attempt writes to."""

    def __init__(self, folder: Path, attempts: int, limit: int | None) -> None:
        self._folder = folder
        self._attempts = attempts
        self._limit = limit
        self._attempt = 0
        self._size: int | None = None
        """The file's size as the server announces it, in bytes; None where it does not."""
        self._count = 0
        self._logged_at = 0.0
        self._file: BinaryIO

    def __call__(self, url: str, output_file: str, pooch: object) -> None:
        """Download `url` to `output_file`.

        Raises:
            RegistryError: Another attempt would not help, or this was the last one.
            requests.RequestException: Pooch tries again.
        """
        from requests.exceptions import ChunkedEncodingError, RequestException

        self._attempt += 1
        self._size, self._count, self._logged_at = None, 0, time.monotonic()
        try:
            with open(output_file, "wb") as self._file:
                self._http_downloader()(url, self, pooch)
            if self._size not in (None, self._count):  # urllib3 1.x does not compare them
                raise ChunkedEncodingError
        except RequestException as error:
            cause = self._cause(error)
            if self._attempt == self._attempts or not _is_transient(error):
                tries = f" after {self._attempt} attempts" if self._attempt > 1 else ""
                raise RegistryError(
                    f"{url} could not be downloaded{tries}: {cause}. Check the address and the connection, "
                    "then try again."
                ) from error
            logger.warning("%s: %s; trying again.", url, cause)
            raise

    def write(self, data: bytes) -> None:
        """Write a part of the body."""
        self._count += len(data)
        self._check_limit(self._count)
        self._file.write(data)
        if time.monotonic() - self._logged_at > _LOG_INTERVAL:
            self._logged_at = time.monotonic()
            of = f" of {size_text(self._size)}" if self._size else ""
            logger.info("%s%s so far.", size_text(self._count), of)

    def flush(self) -> None:
        """Do nothing: the file is not read before it is closed."""

    def _http_downloader(self) -> Any:
        from pooch import HTTPDownloader

        trusted = ssl.get_default_verify_paths()
        return HTTPDownloader(
            chunk_size=_CHUNK,
            timeout=TIMEOUT,
            # Without compression the announced size is that of the file.
            headers={"User-Agent": "lanista", "Accept-Encoding": "identity"},
            hooks={"response": self._check_response},
            # The certificates that Python trusts: a company's own are among them.
            verify=trusted.cafile or trusted.capath or True,
        )

    def _check_response(self, response: Response, *_: object, **__: object) -> None:
        """Check a response before a redirection is followed or its body is read."""
        if response.is_redirect:
            _check_redirection(response.url, response.headers["location"])
        elif response.ok:
            announced = response.headers.get("Content-Length", "")
            if announced.isdecimal():
                self._size = int(announced)
                self._check_limit(self._size)
                require_room(self._folder, self._size, response.url)
                if self._limit is None:
                    logger.info("Downloading %s (%s).", response.url, size_text(self._size))

    def _check_limit(self, size: int) -> None:
        if self._limit is not None and size > self._limit:
            raise RegistryError(f"The file is larger than {self._limit} bytes, the most that is accepted.")

    def _cause(self, error: BaseException) -> str:
        from requests.exceptions import ChunkedEncodingError, HTTPError

        if isinstance(error, HTTPError) and error.response is not None:
            return f"the server says {error.response.status_code} {error.response.reason}"
        if isinstance(error, ChunkedEncodingError):
            announced = "" if self._size is None else f": {self._size} bytes were announced"
            return f"the connection ended early{announced}"
        while cause := error.__cause__ or error.__context__:
            error = cause  # the innermost: requests wraps it three times
        return str(error).strip().rstrip(".") or type(error).__name__


def _is_transient(error: Exception) -> bool:
    """Whether another attempt may succeed."""
    from requests import exceptions

    if isinstance(error, exceptions.HTTPError) and error.response is not None:
        return error.response.status_code in _TRANSIENT
    return isinstance(
        error, (exceptions.ConnectionError, exceptions.Timeout, exceptions.ChunkedEncodingError)
    )


def _check_redirection(url: str, location: str) -> None:
    """Refuse to leave the web, and to leave an encrypted connection for an open one."""
    try:
        target = urljoin(url, location)
        scheme = urlsplit(target).scheme.lower()
    except ValueError as error:
        raise RegistryError(f"{url} redirects to {location!r}, which is not an address.") from error
    if scheme not in ("http", "https"):
        raise RegistryError(f"{url} redirects to {target}, which is not a web address.")
    if scheme == "http" and url.lower().startswith("https:"):
        raise RegistryError(f"{url} redirects to {target}, which is not encrypted: it is not followed.")
