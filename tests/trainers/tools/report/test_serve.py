"""`lanista report --watch`: one secret address on this machine, which shows what the runs have come to."""

import http.client
import json
import re
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from subprocess import PIPE
from urllib.parse import urlsplit

import pytest
from lanista.trainers.cli import page_server
from lanista.trainers.cli.page_server import PageServer
from lanista.trainers.cli.runs.record import REWARD
from lanista.trainers.stats.summary import StatsSummary
from lanista.trainers.stats.tensorboard import TensorBoardWriter
from lanista.trainers.tools.report import command
from lanista.trainers.tools.report.command import LivePage
from made_runs import make_run


@pytest.fixture
def server():
    with PageServer(lambda: b"the page") as server:
        thread = threading.Thread(target=server.serve)
        thread.start()
        yield server
        server.stop()
        thread.join()


def ask(server, path=None, method="GET", **headers):
    """Status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.putrequest(method, server.path if path is None else path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_the_address_shows_the_page(server):
    parts = urlsplit(server.address)
    assert parts.hostname == "127.0.0.1" and len(parts.path) >= 24
    assert ask(server) == (200, b"the page")
    assert ask(server, Host=f"localhost:{server.port}") == (200, b"the page")
    assert ask(server, method="HEAD") == (200, b"")


@pytest.mark.parametrize("path", ["/", "/favicon.ico", "/../etc/passwd", "/x/", "//", "/%2e%2e/", "/?token"])
def test_other_paths_are_refused(server, path):
    assert ask(server, path)[0] == 404
    assert ask(server, server.path + "configuration.yaml")[0] == 404
    assert ask(server, server.path[:-1])[0] == 404


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "localhost:1", "", "127.0.0.1.evil.example:80"]
)
def test_other_hosts_are_refused(server, host):
    assert ask(server, Host=host) == (403, b"Forbidden")


def test_other_methods_are_refused(server):
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(server, method=method)[0] == 501


def test_the_server_is_only_on_this_machine(server):
    assert server.server_address[0] == "127.0.0.1"


def test_callers_that_do_not_say_what_they_want_take_no_threads(server):
    before = threading.active_count()
    silent = [socket.create_connection(("127.0.0.1", server.port), 30) for _ in range(400)]
    for number, caller in enumerate(silent):
        if number % 2:
            caller.sendall(b"GET / HTTP/1.1\r\nHost: ")
    assert ask(server) == (200, b"the page")
    assert threading.active_count() <= before + page_server._THREADS
    for caller in silent:
        caller.close()


def test_a_request_that_drips_has_one_deadline_and_its_size_is_limited(server):
    """The deadline is that of `Callers`, whose tests let time pass."""
    callers = server._callers
    assert callers._seconds == 10 and callers._most == 1 << 16
    with socket.create_connection(("127.0.0.1", server.port), 30) as client:
        client.sendall(b"GET / HTTP/1.1\r\n" + b"A: " + b"x" * (1 << 16))
        with suppress(ConnectionError):  # what it has not read makes the system say so
            assert client.recv(1) == b""
    assert ask(server) == (200, b"the page")


@pytest.mark.parametrize(
    ("error", "told"), [(ConnectionResetError, False), (BrokenPipeError, False), (ZeroDivisionError, True)]
)
def test_a_browser_that_hangs_up_leaves_no_traceback(server, capsys, error, told):
    def fail():
        raise error

    server.page = fail
    with pytest.raises(http.client.RemoteDisconnected):  # the connection is closed after the error is told
        ask(server)
    assert (error.__name__ in capsys.readouterr().err) == told


def test_the_page_follows_the_runs(tmp_path):
    def write(step):
        writer = TensorBoardWriter(tmp_path / "a")
        writer.write_stats("Ball", {REWARD: StatsSummary([float(step)])}, step)
        writer.close()

    def steps():
        page = live.read().decode()
        assert "connect-src 'self'" in page
        return [
            chart["x"] for chart in json.loads(re.search(r'id="curves">(.*?)</script>', page)[1])["charts"]
        ]

    (tmp_path / "a" / "run_logs").mkdir(parents=True)
    now = [0.0]
    live = LivePage(lambda: {"a": tmp_path / "a"}, lambda: now[0])
    assert steps() == []
    write(10)
    assert steps() == []  # it was looked at a moment ago
    now[0] += 10
    assert steps() == [[10]]
    before = live.read()
    write(20)
    now[0] += 10
    assert steps() == [[10, 20]]
    now[0] += 10
    assert live.read() != before and live.read() is live.read()


def test_a_run_that_was_killed_does_not_stay_running(tmp_path):
    (tmp_path / "a" / "run_logs").mkdir(parents=True)
    now = [0.0]
    live = LivePage(lambda: {"a": tmp_path / "a"}, lambda: now[0])
    code = f"""if True:
        from lanista.envs.utils.process_lock import ProcessLock
        lock = ProcessLock({str(tmp_path / ".a.lock")!r})
        print(lock.acquire(), flush=True)
        input()
    """
    with subprocess.Popen([sys.executable, "-c", code], stdin=PIPE, stdout=PIPE, text=True) as trainer:
        assert trainer.stdout.readline() == "True\n"
        assert b'class="state running"' in live.read()
        trainer.kill()
    assert (tmp_path / ".a.lock").exists()
    now[0] += 10
    assert b'class="state empty"' in live.read()


@pytest.mark.parametrize("name", ["configuration.yaml", "Ball/events.out.tfevents.1", "run_logs/timers.json"])
@pytest.mark.parametrize("kind", ["device", "deep", "number", "folder"])
def test_the_browser_stays_while_a_file_becomes_odd(tmp_path, capsys, name, kind):
    run = make_run(tmp_path, "r")
    live = LivePage(lambda: {"r": run}, iter(range(0, 1000, 10)).__next__)
    with PageServer(live.read) as server:
        thread = threading.Thread(target=server.serve)
        thread.start()
        assert ask(server)[0] == 200
        path = run / name
        path.unlink(missing_ok=True)
        if kind == "device":
            path.symlink_to("/dev/zero")
        elif kind == "folder":
            path.mkdir()
        else:
            path.write_text("[" * 99_999 if kind == "deep" else f'{{"total": {"9" * 400}}}')
        assert ask(server)[0] == 200
        server.stop()
        thread.join()
    assert "Traceback" not in capsys.readouterr().err


def test_the_page_stays_as_it_was_while_a_run_cannot_be_read(tmp_path, capsys, monkeypatch):
    run = make_run(tmp_path, "r")
    live = LivePage(lambda: {"r": run}, iter(range(0, 1000, 10)).__next__)
    page = live.read()
    monkeypatch.setattr(command, "read_run", lambda *_: 1 / 0)
    (run / "configuration.yaml").write_text("changed: 1")
    assert live.read() == page
    assert "the page stays as it was: ZeroDivisionError" in capsys.readouterr().err
