"""A run of a trial: lanista-learn in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ...envs import guard

PROGRAM = (sys.executable, "-m", "lanista.trainers.cli.main", "learn")
PATIENCE = 120.0
"""Seconds that a run has to save and end once it is asked to."""
_ERROR = "lanista-learn: error: "
_KEPT = 65536
"""Bytes at the end of a log in which its last error is looked for."""


class RunProcess:
    """A run, started in a session of its own, so that Ctrl-C reaches the sweep alone.

    Should the sweep be killed, the guard ends the run.

    Args:
        arguments: what stands behind `lanista-learn`.
        log: the file to which its output is appended.
        program: what is run with them.
    """

    def __init__(self, arguments: Sequence[str], log: Path, program: Sequence[str] = PROGRAM) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        with log.open("ab") as output:
            self._from = output.tell()
            self._process = subprocess.Popen(
                [*program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        guard.watch(self._process.pid)
        self._asked: float | None = None

    def poll(self) -> int | None:
        """Its exit status, None while it runs; one that was asked to end and does not is killed here."""
        status = self._process.poll()
        if status is not None:
            guard.release(self._process.pid)
        elif self._asked is not None and time.monotonic() - self._asked > PATIENCE:
            self._process.kill()
        return status

    def ask_to_end(self) -> None:
        """Let it save and end in good order, as Ctrl-C would; once."""
        if self._asked is not None or self._process.poll() is not None:
            return
        self._asked = time.monotonic()
        # Windows' Ctrl-Break reaches the group that the run leads; its terminate() would be a kill.
        wanted = signal.SIGTERM if os.name == "posix" else getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM)
        with suppress(ProcessLookupError):
            self._process.send_signal(wanted)

    def kill(self) -> None:
        """End it at once."""
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        guard.release(self._process.pid)

    def complaint(self) -> str:
        """The error with which it ended, in one line."""
        with self.log.open("rb") as file:
            file.seek(max(self._from, self.log.stat().st_size - _KEPT))
            lines = file.read().decode(errors="replace").splitlines()
        errors = [number for number, line in enumerate(lines) if line.startswith(_ERROR)]
        if errors:
            told = [line.strip() for line in lines[errors[-1] :] if line.strip()]
            return " ".join(told).removeprefix(_ERROR)
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it wrote nothing")
        return f"{_how(self._process.poll())}; its last words: {last}"


def _how(status: int | None) -> str:
    if status is not None and status < 0:
        with suppress(ValueError):
            return f"it was ended by {signal.Signals(-status).name}"
    return f"it ended with status {status}"
