"""Runs in processes of their own: one that is suspended is named, and ends as any other does."""

import sys

import psutil
import pytest
from console_runs import until
from lanista.trainers.tools import run_process
from lanista.trainers.tools.run_process import RunProcess

pytestmark = pytest.mark.posix("signals are sent to processes")

SAVES = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(print("saved", flush=True)))
print("training", flush=True)
time.sleep(10**6)
"""


@pytest.fixture
def suspended(tmp_path):
    """A run that was suspended while it trained."""
    run = RunProcess([], tmp_path / "log", (sys.executable, "-c", SAVES))
    process = psutil.Process(run._process.pid)
    assert until(lambda: "training" in run.log.read_text())
    process.suspend()
    assert until(lambda: process.status() == psutil.STATUS_STOPPED)
    yield run
    run.kill()


def test_it_is_named_once_until_it_goes_on(suspended, monkeypatch, caplog):
    process = psutil.Process(suspended._process.pid)
    assert suspended.poll() is None and not caplog.messages
    monkeypatch.setattr(run_process, "CHECK_SECONDS", 0.0)
    for times in (1, 2):
        assert suspended.poll() is None and suspended.poll() is None
        assert [f"process {process.pid} is suspended" in told for told in caplog.messages] == [True] * times
        process.resume()
        assert until(lambda: process.status() != psutil.STATUS_STOPPED) and suspended.poll() is None
        process.suspend()
        assert until(lambda: process.status() == psutil.STATUS_STOPPED)


def test_it_saves_when_it_is_to_end(suspended):
    suspended.terminate()
    assert until(lambda: suspended.poll() is not None)
    assert suspended.poll() == 0 and "saved" in suspended.log.read_text()
