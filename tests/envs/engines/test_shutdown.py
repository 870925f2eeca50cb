"""Engines that a script leaves open when it ends."""

import logging
import subprocess
import sys
from types import SimpleNamespace

import pytest
from fake_engine import Clock
from lanista.envs.engines import shutdown


class Connection:
    """A connection to an engine that uses up all the time it is given."""

    timeout = 60.0

    def __init__(self, log, clock=None, *, fails="", error=OSError):
        self.log, self.clock, self.fails, self.error = log, clock or Clock(), fails, error

    def send_quit(self):
        self._call("send_quit")

    def close(self, timeout):
        self._call("close", timeout)
        self.clock.pass_(timeout)

    def _call(self, name, *arguments):
        self.log.append((name, *arguments))
        if name == self.fails:
            raise self.error(f"{name} failed")


def test_open_engines_are_told_to_quit_first_and_share_the_time_to_end(monkeypatch):
    clock, log = Clock(), []
    monkeypatch.setattr(shutdown, "time", SimpleNamespace(monotonic=clock))
    monkeypatch.setattr(shutdown, "_open", {Connection(log, clock): None for _ in range(3)})
    shutdown._close_all()
    closed = [("close", seconds) for seconds in (shutdown.SECONDS, 0.0, 0.0)]
    assert log == [("send_quit",)] * 3 + closed


@pytest.mark.parametrize(("error", "level"), [(OSError, logging.WARNING), (TypeError, logging.DEBUG)])
@pytest.mark.parametrize("failing", ["send_quit", "close"])
def test_one_that_fails_does_not_keep_the_others_from_being_closed(
    monkeypatch, caplog, failing, error, level
):
    logs = [[], [], []]
    failed = Connection(logs[1], fails=failing, error=error)
    connections = [Connection(logs[0]), failed, Connection(logs[2])]
    monkeypatch.setattr(shutdown, "_open", dict.fromkeys(connections))
    with caplog.at_level(logging.DEBUG):
        shutdown._close_all()
    assert [record.levelno for record in caplog.records] == [level]
    assert [[name for name, *_ in log] for log in logs] == [["send_quit", "close"]] * 3
    assert f"{failing} failed" in caplog.text
    assert not shutdown._open


LEFT_OPEN = """
import sys
from lanista.envs.opening import EngineOptions, open_environment

if __name__ == "__main__":
    open_environment(EngineOptions.of(path="scene:basic", transport=sys.argv[1])).reset()
    print("reset")
"""


@pytest.mark.parametrize("transport", ["lean", "grpcio"])
def test_a_script_that_leaves_an_engine_open_ends(tmp_path, transport):
    """Python awaits the threads of its own pools before it closes what is open; theirs await an answer."""
    script = tmp_path / "script.py"
    script.write_text(LEFT_OPEN)
    ended = subprocess.run(
        [sys.executable, str(script), transport], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "reset\n"), ended.stderr
