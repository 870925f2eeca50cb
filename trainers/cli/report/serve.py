"""`lanista report --watch`: serves the page to this machine alone, and makes it anew as the runs go on."""

from __future__ import annotations

import hmac
import secrets
import sys
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

from ...utils.errors import CommandError
from ..runs.record import is_locked, read_run
from .contents import RunResult, group_runs
from .page import make_page

REFRESH = 5.0
"""Seconds between two looks of the page at its runs."""
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}

Signature = tuple[bool, tuple[tuple[str, int, int], ...]]
"""Whether a process trains the run, and path, time and size of each file."""


class LivePage:
    """The page of runs that may still go on; only runs whose files have changed are read again."""

    def __init__(
        self, find: Callable[[], dict[str, Path]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`find` returns the folders of the runs by name; runs that begin later join."""
        self._find = find
        self._clock = clock
        self._runs: dict[str, tuple[Signature, RunResult]] = {}
        self._page = b""
        self._made = -REFRESH
        self._lock = Lock()

    def read(self) -> bytes:
        """The page, at most `REFRESH` / 2 seconds old; the last one while a run that was named is gone.

        Raises:
            CommandError: at the first reading, a run that was named is not there.
        """
        with self._lock:
            if self._clock() - self._made > REFRESH / 2:
                try:
                    self._update()
                except (CommandError, OSError):  # set aside by --force, for example
                    if not self._page:
                        raise
                self._made = self._clock()
            return self._page

    def _update(self) -> None:
        runs = {}
        for name, path in self._find().items():
            signature = _signature(path)
            before = self._runs.get(name)
            same = before is not None and before[0] == signature
            runs[name] = before if before and same else (signature, RunResult.read(read_run(path, name)))
        changed = {name: one[0] for name, one in runs.items()} != {n: one[0] for n, one in self._runs.items()}
        self._runs = runs
        if changed or not self._page:
            page = make_page(group_runs([run for _, run in runs.values()]), refresh=REFRESH)
            self._page = page.encode()


def _signature(folder: Path) -> Signature:
    """What changes whenever the run's curves, status or state do; a killed process leaves its files alone."""
    found = []
    for path in (*folder.glob("*/*"), folder / "configuration.yaml"):
        try:
            stat = path.stat()
        except OSError:
            continue
        found.append((str(path), stat.st_mtime_ns, stat.st_size))
    return is_locked(folder), tuple(sorted(found))


class PageServer(ThreadingHTTPServer):
    """Answers one address on 127.0.0.1, which holds a secret token, and refuses everything else."""

    daemon_threads = True

    def __init__(self, page: Callable[[], bytes], port: int = 0) -> None:
        """Listen. `page` returns the page; 0 stands for any free port. Raises OSError."""
        super().__init__(("127.0.0.1", port), _Handler)
        self.page = page
        self.path = f"/{secrets.token_urlsafe(18)}/"
        self.hosts = {f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")}

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_port}{self.path}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent where a browser has hung up, as when its tab is closed; else do as the base class."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """One request: only GET and HEAD of the page, and only under this machine's own name.

    Another name that leads to 127.0.0.1 would be a site that has rebound it, to read what is served here.
    """

    server: PageServer
    server_version = "lanista"
    sys_version = ""
    timeout = 10
    """Seconds that a client may take to say what it wants."""

    def do_GET(self) -> None:
        """Answer with the page."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """Answer with the page's headers."""
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        if self.headers.get_all("Host", []) not in [[host] for host in self.server.hosts]:
            self._refuse(HTTPStatus.FORBIDDEN)
        elif not hmac.compare_digest(self.path.encode(), self.server.path.encode()):
            self._refuse(HTTPStatus.NOT_FOUND)
        else:
            self._send(HTTPStatus.OK, self.server.page(), body)

    def _refuse(self, status: HTTPStatus) -> None:
        self._send(status, status.phrase.encode(), True)

    def _send(self, status: HTTPStatus, content: bytes, body: bool) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
