"""The process of a further learner, as the first one sees it."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from ...envs import guard

READY = b"ready"
"""What a learner says when torch is loaded and it waits for the others."""


class LearnerProcess:
    """A learner with a pipe to it; it ends when the pipe is closed, as it is when this process ends.

    Like an engine it lives in a session of its own, so that Ctrl-C reaches the first learner alone.
    """

    def __init__(self, rank: int, log: Path) -> None:
        """Start it. `log`: the file of what it writes.

        Raises:
            OSError: the system refuses.
        """
        self.rank, self.log = rank, log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "lanista.trainers.parallel"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        self.pid = self._process.pid
        guard.watch(self.pid)
        atexit.register(self.end)

    def tell(self, command: dict[str, Any]) -> None:
        """Send a command, of plain values.

        Raises:
            OSError: it has ended.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()

    def wait_until_ready(self) -> bool:
        """Wait for its word; False: it has ended without."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip() == READY

    def ended(self, patience: float) -> bool:
        """Whether it ends within so many seconds."""
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self) -> None:
        """End it now; nothing in it is worth saving."""
        atexit.unregister(self.end)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what was still to be sent finds nobody
                    continue
        self._kill()
        self._process.wait()
        guard.release(self.pid)
        if self.log.exists() and not self.log.stat().st_size:
            self.log.unlink()

    def _kill(self) -> None:
        """With whatever it has started. Nobody else has its number before it is waited for."""
        if self._process.returncode is not None:
            return
        if os.name == "posix":
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):  # it has ended; macOS says so by the second
                return
        else:
            self._process.kill()

    def fate(self) -> str:
        """How it ended, with the last line of its log."""
        code = self._process.poll()
        if code is None:
            return "it is alive"
        how = f"it ended with exit status {code}"
        if code < 0:
            how = f"it was ended by signal {-code} ({signal.Signals(-code).name})"
        last = self.log.read_text(errors="replace").strip().splitlines()[-1:] if self.log.exists() else []
        return f"{how}; the last line of {self.log}: {last[0].strip()}" if last else f"{how} without a word"
