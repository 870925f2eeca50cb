"""Ctrl-C once saves and exits, twice exits at once; the terminal is restored, and no process is left."""

import contextlib
import os
import re
import signal
import sys
import threading

import pytest
from console_runs import YAML, end, start, until, weights_are_finite
from lanista.trainers import learn
from scripted_engine import executable, first_free_port

if sys.platform == "win32":
    pytest.skip("assumes a POSIX system: terminals", allow_module_level=True)

import fcntl
import pty
import termios

pytestmark = pytest.mark.slow

ENDLESS = YAML.replace("max_steps: 400", "max_steps: -1").replace(
    "buffer_size: 64", "buffer_size: 64, learning_rate_schedule: constant"
)


class Listener(threading.Thread):
    """Reads the output of a run in progress."""

    def __init__(self, handle):
        super().__init__(daemon=True)
        self.handle = handle
        self.heard = bytearray()
        self.start()

    def run(self):
        with contextlib.suppress(OSError):  # a terminal whose other side is gone
            while part := os.read(self.handle, 65536):
                self.heard += part

    def hears(self, text):
        return until(lambda: text in self.heard)


def begin(folder, script, yaml=ENDLESS):
    """A run with an engine of this script, and a listener to its output."""
    reader, writer = os.pipe()
    process = start(folder, "--env", executable(folder, script), yaml=yaml, stdout=writer)
    os.close(writer)
    return process, Listener(reader)


THREADED = ENDLESS + "    threaded: true\n"


@pytest.mark.parametrize(
    "sign, yaml",
    [(signal.SIGINT, ENDLESS), (signal.SIGTERM, ENDLESS), (signal.SIGINT, THREADED)],
    ids=["Ctrl-C", "SIGTERM", "Ctrl-C, threaded"],
)
def test_one_signal_saves_and_exports(tmp_path, sign, yaml):
    process, listener = begin(tmp_path, "greet(); steps(10**9)", yaml)
    assert listener.hears(b"Exported")
    process.send_signal(sign)
    ended = end(process, tmp_path)
    assert ended.status == 0 and not ended.err
    assert listener.hears(b"Learning was interrupted") and listener.hears(b"Copied")
    assert ended.files("Ball.onnx") and weights_are_finite(ended.files("*.pt"))


@pytest.mark.parametrize("yaml", [ENDLESS, THREADED], ids=["", "threaded"])
def test_two_signals_end_at_once_with_intact_files(tmp_path, yaml):
    # The engine hangs, so that the run is sure to wait for it when the second signal comes.
    process, listener = begin(tmp_path, "greet(); steps(200); os.kill(os.getpid(), signal.SIGSTOP)", yaml)
    assert listener.hears(b"Exported")
    process.send_signal(signal.SIGINT)
    assert listener.hears(b"interrupted")
    process.send_signal(signal.SIGINT)
    ended = end(process, tmp_path)
    assert ended.status == 130 and re.fullmatch(r"\s*lanista-learn: stopped at once.*\s*", ended.err)
    assert weights_are_finite(ended.files("*.pt"))
    assert not ended.files("*.partial")


def test_a_signal_before_the_engine_connects_ends_at_once(tmp_path):
    process, _ = begin(tmp_path, "open('began', 'w'); time.sleep(600)")
    assert until((tmp_path / "began").exists)
    process.send_signal(signal.SIGINT)
    ended = end(process, tmp_path)
    assert ended.status == 130
    assert re.fullmatch(r"\s*lanista-learn: stopped before anything was learned\.\s*", ended.err)


SECOND_ENGINE_HANGS = """
    if os.path.exists('began'):
        open('second', 'w')
        time.sleep(10**6)
    open('began', 'w')
    greet(); steps(10**9)
"""


def test_one_signal_saves_while_the_engine_of_a_test_starts(tmp_path):
    yaml = ENDLESS + "    test_frequency: 100\n"
    flags = ["--base-port", str(first_free_port(8)), "--timeout-wait", "100000"]
    process = start(tmp_path, "--env", executable(tmp_path, SECOND_ENGINE_HANGS), *flags, yaml=yaml)
    assert until((tmp_path / "second").exists), process.communicate()
    process.send_signal(signal.SIGTERM)
    ended = end(process, tmp_path)
    assert ended.good and ended.files("Ball.onnx") and "The test was aborted" in ended.out


def test_ctrl_c_before_signals_are_handled_is_told_as_such(monkeypatch, capsys):
    def interrupted(argv):
        raise KeyboardInterrupt

    monkeypatch.setattr(learn, "parse_command_line", interrupted)
    assert learn.run([]) == 130
    assert capsys.readouterr().err == "\nlanista-learn: stopped before the run began.\n"


HIDE, SHOW = b"\x1b[?25l", b"\x1b[?25h"
"""The escape sequences that hide and show the cursor."""


def on_a_terminal(folder):
    """A run on a terminal of its own: our side of it, the run's side, the run, and a listener."""
    ours, theirs = pty.openpty()
    process = start(
        folder,
        *["--env", executable(folder, "greet(); steps(10**9)")],
        yaml=ENDLESS,
        **dict.fromkeys(("stdin", "stdout", "stderr"), theirs),
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    return ours, theirs, process, Listener(ours)


def test_a_live_display_restores_the_terminal(tmp_path):
    ours, theirs, process, listener = on_a_terminal(tmp_path)
    before = termios.tcgetattr(theirs)
    assert listener.hears(b"Exported") and HIDE in listener.heard
    os.write(ours, b"\x03")  # Ctrl-C, as a terminal sends it
    ended = end(process, tmp_path)
    assert ended.status == 0 and ended.files("Ball.onnx")
    assert until(lambda: listener.heard.rfind(HIDE) < listener.heard.rfind(SHOW))
    assert termios.tcgetattr(theirs) == before
    assert b"stopped and saved" in listener.heard and b"done" not in listener.heard
    os.close(theirs)
    os.close(ours)


def test_closing_the_terminal_saves_and_ends_the_run(tmp_path):
    ours, theirs, process, listener = on_a_terminal(tmp_path)
    os.close(theirs)
    assert listener.hears(b"Exported")
    os.close(ours)
    ended = end(process, tmp_path)
    assert ended.status == 0
    assert ended.files("Ball.onnx") and weights_are_finite(ended.files("*.pt"))
