"""Serves a page to this machine alone, for `lanista report --watch` and `lanista play --watch`."""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import secrets
import socket
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO

from ...envs.engines.callers import MAX_CALLERS, Callers
from ..utils.errors import CommandError

_REQUEST_SECONDS = 10.0
"""Seconds that a client may take to say what it wants."""
_MAX_REQUEST = 1 << 16
"""The most bytes of a request: browsers add the cookies of all that has been served by 127.0.0.1."""
_ANSWER_SECONDS = 10.0
"""Seconds that a client may take to receive the answer."""
_THREADS = 4
"""The most requests that are answered at a time."""

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


class PageServer:
    """Answers one address on 127.0.0.1, which holds a secret token, and refuses everything else.

    Who calls costs no thread before its request is complete, for which it has one deadline.

    Args:
        page: Returns the page, as HTML.
        port: 0 stands for any free one.
        parts: What the page fetches from below its address, as JSON.

    Raises:
        CommandError: The port is taken.
    """

    def __init__(self, page: Content, port: int = 0, parts: Mapping[str, Content] | None = None) -> None:
        try:
            listener = socket.create_server(("127.0.0.1", port), backlog=MAX_CALLERS)
        except OSError as error:
            raise CommandError(f"127.0.0.1:{port}: {error.strerror}. Give another --port.") from error
        listener.setblocking(False)
        self.server_address = listener.getsockname()
        self.port = self.server_address[1]
        self.page = page
        self.parts = parts or {}
        self.path = f"/{secrets.token_urlsafe(18)}/"
        self.hosts = {f"{name}:{self.port}" for name in ("127.0.0.1", "localhost")}
        self._callers = Callers([listener], _REQUEST_SECONDS, _MAX_REQUEST, is_request)
        self._is_over = False

    def __enter__(self) -> PageServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def serve(self) -> None:
        """Answer until `stop` is called in another thread, or Ctrl-C."""
        with ThreadPoolExecutor(_THREADS, "page") as threads:
            while not self._is_over:
                for caller in self._callers.wait():
                    threads.submit(self._answer, caller.connection, bytes(caller.data))

    def stop(self) -> None:
        """Let `serve` end, in whichever thread it runs."""
        self._is_over = True
        self._callers.wake()

    def close(self) -> None:
        """Stop listening; `serve` has ended."""
        self._callers.close()

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.port}{self.path}"

    def find(self, path: str) -> tuple[str, Content] | None:
        """The type of what is at a path, and what returns it; None if there is nothing."""
        found = None
        for name, content in {"": self.page, **self.parts}.items():
            if hmac.compare_digest(path.encode(), f"{self.path}{name}".encode()):
                found = "application/json" if name else "text/html; charset=utf-8", content
        return found

    def _answer(self, connection: socket.socket, request: bytes) -> None:
        """Answer a request. Stays silent where a browser has hung up, as when its tab is closed."""
        with connection:
            try:
                answer = PageRequest(request, self).answer
                connection.settimeout(_ANSWER_SECONDS)
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
            except (ConnectionError, TimeoutError):
                pass
            except Exception:  # the next request may be answered
                traceback.print_exc()


def is_request(data: bytearray) -> bool:
    """Whether these bytes contain a whole request, which has no body."""
    return b"\r\n\r\n" in data or b"\n\n" in data


class PageRequest(BaseHTTPRequestHandler):
    """One request: only GET and HEAD of the page and its parts, and only under this machine's own name.

    Another name that leads to 127.0.0.1 would be a site that has rebound it, to read what is served here.
    It reads the request from memory, and leaves the answer there.
    """

    server: PageServer  # type: ignore[assignment]
    wfile: BytesIO
    server_version = "lanista"
    sys_version = ""

    def __init__(self, request: bytes, server: PageServer) -> None:
        """Make the answer; the base class would read from a socket."""
        self.server = server
        self.client_address = ("127.0.0.1", 0)
        self.rfile, self.wfile = BytesIO(request), BytesIO()
        self.handle()
        self.answer = self.wfile.getvalue()

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
