"""Makes `tests/goldendata.py` importable as `goldendata`, and random tests independent of time."""

import atexit
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parent / "benchmarks"))  # some tests repeat what these scripts measure

pytest_plugins = ["godot_engine", "posix_tests", "slow_tests"]

# Tests run side by side, and start processes: with more threads in each, these mostly wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Some tests import onnxruntime before Lanista does, which sets this.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# Runs of tests are marked as this user's own with a key that goes with the tests.
_DATA = tempfile.mkdtemp(prefix="lanista-tests-")
atexit.register(shutil.rmtree, _DATA, ignore_errors=True)
os.environ["XDG_DATA_HOME"] = os.environ["WIN_PD_OVERRIDE_LOCAL_APPDATA"] = _DATA

# A busy machine must not fail a test.
settings.register_profile("lanista", deadline=None)
settings.load_profile("lanista")


def _heed_signals() -> None:
    """Let the processes that tests start heed Ctrl-C and a closed terminal.

    Tests run in the background (`nohup`, `&`, a service) have both ignored, and children inherit that.
    """
    for name, usual in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


_heed_signals()


@pytest.fixture(autouse=True)
def _logger_as_before() -> Iterator[None]:
    """Commands that a test runs in this process set up the package's log, which is not for the next test."""
    logger = logging.getLogger("lanista")
    before = logger.level, logger.propagate, logger.handlers[:]
    yield
    level, logger.propagate, logger.handlers[:] = before
    logger.setLevel(level)
