"""Whether another process of the run still lives: each renews a file as long as it is not stopped.

A process that computes for long, waits for an engine or writes a large file goes on renewing its file. One
that was stopped (SIGSTOP), or that the system does not let run, does not: only that is silence.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from . import distributed

BEAT_SECONDS = 0.5
"""Between two renewals."""
SHORTEST_TIMEOUT = 5.0
"""Silence that a busy machine may cause, however short a timeout the user has set for engines."""
START_SECONDS = 60.0
"""Silence that a process may begin with while it imports torch, even if the timeout is shorter."""
LAST_SECONDS = 5.0
"""Silence with which a process is given up when the run is to end."""
LAST_START_SECONDS = 15.0
"""The same of one that is starting."""


class Heartbeat(threading.Thread):
    """Renews this process's file until it ends."""

    def __init__(self, file: Path, beside: Callable[[], None] = lambda: None) -> None:
        """`beside` is called with each renewal."""
        super().__init__(name="heartbeat", daemon=True)
        self._file, self._beside = file, beside
        self._ended = threading.Event()

    def run(self) -> None:
        """Renew the file again and again."""
        with suppress(OSError):  # its folder is gone: the run is over
            self._file.touch()
            while not self._ended.wait(BEAT_SECONDS):
                os.utime(self._file)
                self._beside()

    def stop(self) -> None:
        """Renew it no more."""
        self._ended.set()


class Watch:
    """Says how long to wait for another process, whose file it looks at.

    It counts only the time in which this process looks, at most a beat from one look to the next: after the
    whole machine was suspended nobody is late.
    """

    def __init__(
        self,
        file: Path | None,
        timeout: float,
        ends: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare to wait.

        Args:
            file: which the other one renews; None: nothing is known of it.
            timeout: seconds of silence with which it counts as lost (`env_settings.timeout_wait`); inf: none.
            ends: whether this run is to end.
            clock: seconds, monotonic.
        """
        self.timeout = max(timeout, SHORTEST_TIMEOUT)
        self._file, self._ends, self._clock = file, ends, clock
        self._beat: int | None = None
        self._silence = 0.0
        self._ending = 0.0
        """Seconds for which this process has waited since the run was to end."""
        self._looked_at = -math.inf

    def silence(self) -> float:
        """Look at the file; seconds for which it was not renewed."""
        now = self._clock()
        passed = min(now - self._looked_at, BEAT_SECONDS) if self._looked_at > -math.inf else 0.0
        self._looked_at = now
        self._ending += passed if self._ends() else 0.0
        beat = self._newest_beat()
        self._silence = self._silence + passed if beat == self._beat else 0.0
        self._beat = beat
        return 0.0 if self._file is None else self._silence

    def _newest_beat(self) -> int | None:
        with suppress(OSError):
            return None if self._file is None else self._file.stat().st_mtime_ns
        return None

    @property
    def is_alive(self) -> bool:
        """Whether the other process was heard of lately, as of the last look."""
        return self._beat is not None and self._silence <= 2 * BEAT_SECONDS

    def lost_reason(self) -> str | None:
        """Why not to wait any more, as the rest of a sentence about the process; None: wait on."""
        silence = self.silence()
        starts = self._beat is None
        if silence >= (max(self.timeout, START_SECONDS) if starts else self.timeout):
            return (
                f"has shown no sign of life for {silence:.0f} s, as if it were suspended "
                "(env_settings.timeout_wait, --timeout-wait)"
            )
        if not self._ends():
            return None
        if silence >= (LAST_START_SECONDS if starts else LAST_SECONDS):
            return f"has shown no sign of life for {silence:.0f} s, and the run is ending"
        if self._ending >= self.timeout:
            return (
                f"was not ready {self._ending:.0f} s after the run was told to end "
                "(env_settings.timeout_wait, --timeout-wait)"
            )
        return None


class Presence:
    """This rank's sign of life, and a watch for each of the others, by files in a folder of all ranks.

    A signal reaches one rank, which may wait for others for long; and these may wait for their engines. So
    who is to end says so in the folder, and the others then come to meet it.
    """

    def __init__(self, folder: Path | None, rank: int, world_size: int, timeout: float | None = None) -> None:
        """Begin to show that this rank lives.

        Args:
            folder: that all ranks see; None where they are on several machines, and nothing is known of them.
            rank, world_size: this one, and how many there are.
            timeout: seconds without a sign of life after which a rank counts as lost; None: never, until the
                run is to end. So it is for the ranks that are not the first: the user may suspend that one.
        """
        self.watches: Mapping[int, Watch] = {
            other: Watch(_file(folder, other), math.inf if timeout is None else timeout, distributed.ending)
            for other in range(world_size)
            if other != rank
        }
        distributed.end(False)
        self._end = None if folder is None else folder / "end"
        self._heartbeat: Heartbeat | None = None
        file = _file(folder, rank)
        if file is not None:
            self._heartbeat = Heartbeat(file, self._share_end)
            self._heartbeat.start()

    def _share_end(self) -> None:
        assert self._end is not None
        if distributed.ending():
            self._end.touch()
        elif self._end.exists():
            distributed.end()

    def close(self) -> None:
        """Show it no more."""
        if self._heartbeat is not None:
            self._heartbeat.stop()


def _file(folder: Path | None, rank: int) -> Path | None:
    return None if folder is None else folder / f"alive-{rank}"


def on_one_machine() -> bool:
    """Whether `torchrun` has started all ranks on this machine."""
    return os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE")
