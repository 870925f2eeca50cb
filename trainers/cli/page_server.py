"""Serves a page to this machine alone, for `lanista report --watch` and `lanista play --watch`."""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import secrets
import sys
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ..utils.errors import CommandError

_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}

Content = Callable[[], bytes]


def port_number(text: str) -> int:
    """The value of --port. Raises ArgumentTypeError."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a port, 1 to 65535")
    return int(text)


def content_policy(script: str, refreshes: bool) -> str:
    """A policy for pages: nothing is loaded, and no script runs but this one.

    A page that refreshes may read from the place that it came from.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    connect = "; connect-src 'self'" if refreshes else ""
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        f"media-src data:; base-uri 'none'; form-action 'none'{connect}"
    )


class PageServer(ThreadingHTTPServer):
    """Answers one address on 127.0.0.1, which holds a secret token, and refuses everything else."""

    daemon_threads = True

    def __init__(self, page: Content, port: int = 0, parts: Mapping[str, Content] | None = None) -> None:
        """Listen.

        Args:
            page: returns the page, as HTML.
            port: 0 stands for any free one.
            parts: what the page fetches from below its address, as JSON.

        Raises:
            CommandError: the port is taken.
        """
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise CommandError(f"127.0.0.1:{port}: {error.strerror}. Give another --port.") from error
        self.page = page
        self.parts = parts or {}
        self.path = f"/{secrets.token_urlsafe(18)}/"
        self.hosts = {f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")}

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_port}{self.path}"

    def find(self, path: str) -> tuple[str, Content] | None:
        """The type of what is at a path, and what returns it; None if there is nothing."""
        found = None
        for name, content in {"": self.page, **self.parts}.items():
            if hmac.compare_digest(path.encode(), f"{self.path}{name}".encode()):
                found = "application/json" if name else "text/html; charset=utf-8", content
        return found

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent where a browser has hung up, as when its tab is closed; else do as the base class."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """One request: only GET and HEAD of the page and its parts, and only under this machine's own name.

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
        elif (found := self.server.find(self.path)) is None:
            self._refuse(HTTPStatus.NOT_FOUND)
        else:
            kind, content = found
            self._send(HTTPStatus.OK, kind, content(), body)

    def _refuse(self, status: HTTPStatus) -> None:
        self._send(status, "text/plain", status.phrase.encode(), True)

    def _send(self, status: HTTPStatus, kind: str, content: bytes, body: bool) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
