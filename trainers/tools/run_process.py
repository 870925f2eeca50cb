"""Runs of lanista-learn in processes of their own, as `learn --seeds`, sweeps and experiments start them."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from ...envs.engines.own_program import own_program
from ...envs.engines.reaper import REAPER, resume_family
from ...envs.utils.regular_files import open_own

logger = logging.getLogger(__name__)

PROGRAM = tuple(own_program("lanista.trainers.cli.main", "learn"))
EXIT_TIMEOUT = 120.0
"""Seconds that a run has to save and exit once it is terminated."""
CHECK_SECONDS = 10.0
"""Seconds between checks of whether a run is suspended."""
ERROR_PREFIX = "lanista-learn: error: "
_TAIL = 65536
"""Bytes at the end of a log that are searched for its last error."""


class RunProcess:
    """A run, started in a session of its own so that Ctrl-C only reaches the command that started it.

    If that command is killed, the process reaper ends the run.

    Args:
        arguments: those of `lanista-learn`.
        log: the file to which its output is appended; None: it goes where this process' own goes.
        program: the command that takes them.
    """

    def __init__(
        self, arguments: Sequence[str], log: Path | None = None, program: Sequence[str] = PROGRAM
    ) -> None:
        self.log = log
        self._log_start = 0
        command = [*program, *arguments]
        if log is None:
            self._process = REAPER.start(command, stdin=subprocess.DEVNULL)
        else:
            log.parent.mkdir(parents=True, exist_ok=True)
            with open_own(log, "ab") as output:
                self._log_start = output.tell()
                self._process = REAPER.start(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
                )
        self._terminated: float | None = None
        """When the run was asked to exit; None before."""
        self._checked = time.monotonic()
        self._is_suspended = False

    def poll(self) -> int | None:
        """The exit status, None while it runs; kills a run that has not exited in time.

        The user is warned of a run that was suspended, of which nothing else would be heard.
        """
        status = self._process.poll()
        if status is not None:
            REAPER.remove(self._process.pid)
        elif self._terminated is not None and time.monotonic() - self._terminated > EXIT_TIMEOUT:
            self._process.kill()
        elif time.monotonic() - self._checked >= CHECK_SECONDS:
            self._warn_if_suspended()
        return status

    def _warn_if_suspended(self) -> None:
        self._checked, before = time.monotonic(), self._is_suspended
        with suppress(psutil.Error):
            self._is_suspended = psutil.Process(self._process.pid).status() == psutil.STATUS_STOPPED
        if self._is_suspended and not before:
            logger.warning(
                "The run of process %d is suspended (kill -STOP) and awaited. kill -CONT %d lets it go on; "
                "Ctrl-C lets it save and exit.",
                self._process.pid,
                self._process.pid,
            )

    def terminate(self) -> None:
        """Let the run save and exit, as Ctrl-C would; once. One that is suspended goes on to do so."""
        if self._terminated is not None or self._process.poll() is not None:
            return
        self._terminated = time.monotonic()
        # Windows' Ctrl-Break reaches the process group that the run leads; its terminate() would be a kill.
        request = (
            signal.SIGTERM if os.name == "posix" else getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM)
        )
        with suppress(ProcessLookupError):
            self._process.send_signal(request)
        resume_family(self._process.pid)

    def kill(self) -> None:
        """Kill the run, and wait until it has ended."""
        if self._process.poll() is None:
            resume_family(self._process.pid)  # its guard ends what it has started
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        REAPER.remove(self._process.pid)

    def error_message(self) -> str:
        """The error with which the run ended, on one line."""
        if self.log is None:
            return _describe_exit(self._process.poll())
        with self.log.open("rb") as file:
            file.seek(max(self._log_start, self.log.stat().st_size - _TAIL))
            lines = file.read().decode(errors="replace").splitlines()
        errors = [number for number, line in enumerate(lines) if line.startswith(ERROR_PREFIX)]
        if errors:
            message = [line.strip() for line in lines[errors[-1] :] if line.strip()]
            return " ".join(message).removeprefix(ERROR_PREFIX)
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        output = f"its last line of output: {last}" if last else "it wrote nothing"
        return f"{_describe_exit(self._process.poll())}; {output}"


def _describe_exit(status: int | None) -> str:
    if status is not None and status < 0:
        with suppress(ValueError):
            return f"it was killed by {signal.Signals(-status).name}"
    return f"it exited with status {status}"
