"""A cache of its own for every test, and a server of files on this machine."""

import functools
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from lanista.envs.registry import registry


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LANISTA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("pooch.core.time", SimpleNamespace(sleep=lambda seconds: None))
    registry._locate.cache_clear()
    return tmp_path / "cache"


class Server:
    """Serves the folder `files`; `failing` first requests are answered with 503, `cut` ones end too early."""

    def __init__(self, files):
        self.files, self.failing, self.cut, self.asked = files, 0, 0, []
        files.mkdir()
        outer = self

        class Handler(SimpleHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                if outer.failing:
                    outer.failing -= 1
                    self.send_error(503)
                elif outer.cut:
                    outer.cut -= 1
                    self.send_response(200)
                    self.send_header("Content-Length", "1000")
                    self.end_headers()
                    self.wfile.write(b"half")
                elif self.path.startswith("/to-"):
                    self.send_response(302)
                    self.send_header(
                        "Location", "file:///etc/passwd" if "file" in self.path else "/there.txt"
                    )
                    self.end_headers()
                else:
                    super().do_GET()

            def log_message(self, *_):
                pass

        handler = functools.partial(Handler, directory=str(files))
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def url(self, name):
        return f"http://127.0.0.1:{self.http.server_port}/{name}"


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path / "files")
    yield server
    server.http.shutdown()
    server.http.server_close()
