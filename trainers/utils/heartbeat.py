"""Whether another process of the run still lives: each renews a sign of it as long as it is not stopped.

A process that computes for long, waits for an engine or writes a large file goes on renewing its sign. One
that was stopped (SIGSTOP), or that the system does not let run, does not: only that is silence.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from . import distributed

logger = logging.getLogger(__name__)

BEAT_SECONDS = 0.5
"""Between two renewals."""
SHORTEST_TIMEOUT = 5.0
"""Silence that a busy machine may cause, however short a timeout the user has set for engines."""
START_SECONDS = 60.0
"""Silence that a process may begin with while it imports torch, even if the timeout is shorter."""
WARNING_SECONDS = 10.0
"""Silence of which the user is told, long before it counts as the process's end."""
LAST_SECONDS = 5.0
"""Silence with which a process is given up when the run is to end."""
LAST_START_SECONDS = 15.0
"""The same of one that is starting."""
CHECK_SECONDS = 0.1
"""Seconds between looks at whether a process that is awaited still lives."""
Sign = int | bytes
"""Differs from the sign before."""


class Heartbeat(threading.Thread):
    """Renews this process's sign until it ends."""

    def __init__(self, renew: Callable[[], None]) -> None:
        """`renew` raises an OSError or RuntimeError once the run is over."""
        super().__init__(name="heartbeat", daemon=True)
        self._renew = renew
        self._ended = threading.Event()

    def run(self) -> None:
        """Renew the sign again and again."""
        with suppress(OSError, RuntimeError):
            self._renew()
            while not self._ended.wait(BEAT_SECONDS):
                self._renew()

    def stop(self) -> None:
        """Renew it no more."""
        self._ended.set()


def last_change(file: Path) -> Sign | None:
    """The sign of a process that renews a file; None while there is no such file."""
    with suppress(OSError):
        return file.stat().st_mtime_ns
    return None


class Watch:
    """Says how long to wait for another process, whose sign it looks at.

    It counts only the time in which this process looks, at most a beat from one look to the next: after the
    whole machine was suspended nobody is late.
    """

    def __init__(
        self,
        sign: Callable[[], Sign | None],
        timeout: float,
        ends: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare to wait.

        Args:
            sign: the newest one of the other process; None before the first.
            timeout: seconds of silence with which it counts as lost (`env_settings.timeout_wait`); inf: none.
            ends: whether this run is to end.
            clock: seconds, monotonic.
        """
        self.timeout = max(timeout, SHORTEST_TIMEOUT)
        self._sign, self._ends, self._clock = sign, ends, clock
        self._newest: Sign | None = None
        self._silence = 0.0
        self._ending = 0.0
        """Seconds for which this process has waited since the run was to end."""
        self._looked_at = -math.inf
        self._warned = False

    def silence(self) -> float:
        """Look at the sign; seconds for which it was not renewed."""
        now = self._clock()
        passed = min(now - self._looked_at, BEAT_SECONDS) if self._looked_at > -math.inf else 0.0
        self._looked_at = now
        self._ending += passed if self._ends() else 0.0
        newest = self._sign()
        self._silence = self._silence + passed if newest == self._newest else 0.0
        self._newest = newest
        return self._silence

    @property
    def is_alive(self) -> bool:
        """Whether the other process was heard of lately, as of the last look."""
        return self._newest is not None and self._silence <= 2 * BEAT_SECONDS

    def lost_reason(self, name: str) -> str | None:
        """Why not to wait any more, as the rest of a sentence about the process; None: wait on.

        The user is warned of a process that has been silent for a while, by its name.
        """
        silence = self.silence()
        starts = self._newest is None
        limit = max(self.timeout, START_SECONDS) if starts else self.timeout
        if silence >= limit:
            return (
                f"has shown no sign of life for {silence:.0f} s, as if it were suspended "
                "(env_settings.timeout_wait, --timeout-wait)"
            )
        if not self._ends():
            self._warn(name, silence, limit)
            return None
        if silence >= (LAST_START_SECONDS if starts else LAST_SECONDS):
            return f"has shown no sign of life for {silence:.0f} s, and the run is ending"
        if self._ending >= self.timeout:
            return (
                f"was not ready {self._ending:.0f} s after the run was told to end "
                "(env_settings.timeout_wait, --timeout-wait)"
            )
        return None

    def _warn(self, name: str, silence: float, limit: float) -> None:
        if silence < WARNING_SECONDS:
            self._warned = False
        elif not self._warned and limit < math.inf:
            self._warned = True
            logger.warning(
                "%s has shown no sign of life for %.0f s, as if it were suspended. It is awaited for %g s "
                "(env_settings.timeout_wait, --timeout-wait); Ctrl-C saves and ends the run.",
                name,
                silence,
                limit,
            )


class Ending(Protocol):
    """A process whose end can be awaited."""

    def wait(self, timeout: float) -> bool:
        """Wait for the end at most so many seconds; whether it has come."""


def await_end(process: Ending, watch: Watch, timeout: float) -> bool:
    """Wait for the end of a process that is to end, as long as it shows that it lives; whether it has come.

    `timeout`: seconds to wait at most.
    """
    deadline = time.monotonic() + timeout
    while not process.wait(min(CHECK_SECONDS, timeout)):
        if time.monotonic() >= deadline or watch.silence() >= LAST_SECONDS:
            return False
    return True


class Signs(Protocol):
    """Where the ranks of a run show each other that they live."""

    def renew(self, ending: bool) -> bool:
        """Show that this rank lives, and whether the run is to end; whether any rank has said that."""

    def newest(self, rank: int) -> Sign | None:
        """The newest sign of a rank; None before the first."""


class FolderSigns:
    """Files of ranks of one machine, in a folder that all of them see."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._folder, self._rank = folder, rank

    def renew(self, ending: bool) -> bool:
        """Renew this rank's file; see `Signs`."""
        self._file(self._rank).touch()
        end = self._folder / "end"
        if ending:
            end.touch()
        return ending or end.exists()

    def newest(self, rank: int) -> Sign | None:
        """When a rank's file was renewed; see `Signs`."""
        return last_change(self._file(rank))

    def _file(self, rank: int) -> Path:
        return self._folder / f"alive-{rank}"


class StoreSigns:
    """Entries of the store at which the ranks of `torchrun` have met, perhaps on several machines.

    It is asked in `renew` alone, by the thread of the heartbeat: a store whose process is stopped does not
    answer.
    """

    def __init__(self, store: distributed.Store, rank: int, world_size: int) -> None:
        self._store, self._rank, self._world_size = store, rank, world_size
        self._beats = 0
        self._newest: dict[int, bytes] = {}

    def renew(self, ending: bool) -> bool:
        """Count in this rank's entry, and read the others'; see `Signs`."""
        self._beats += 1
        self._store.set(f"alive-{self._rank}", str(self._beats))
        if ending:
            self._store.set("end", "")
        for rank in range(self._world_size):
            if self._store.check([f"alive-{rank}"]):
                self._newest[rank] = self._store.get(f"alive-{rank}")
        return ending or self._store.check(["end"])

    def newest(self, rank: int) -> Sign | None:
        """A rank's entry as it was read last; see `Signs`."""
        return self._newest.get(rank)


class Presence:
    """This rank's sign of life, and a watch for each of the others.

    A signal reaches one rank, which may wait for others for long; and these may wait for their engines. So
    who is to end says so beside its sign, and the others then come to meet it.
    """

    def __init__(self, signs: Signs, rank: int, world_size: int, timeout: float | None = None) -> None:
        """Begin to show that this rank lives.

        Args:
            signs: of all ranks.
            rank, world_size: this one, and how many there are.
            timeout: seconds without a sign of life after which a rank counts as lost; None: never, until the
                run is to end. So it is for the ranks that are not the first: the user may suspend that one.
        """
        limit = math.inf if timeout is None else timeout
        self.watches: Mapping[int, Watch] = {
            other: Watch(partial(signs.newest, other), limit, distributed.ending)
            for other in range(world_size)
            if other != rank
        }
        distributed.end(False)
        self._signs = signs
        self._heartbeat = Heartbeat(self._beat)
        self._heartbeat.start()

    def _beat(self) -> None:
        if self._signs.renew(distributed.ending()):
            distributed.end()

    def close(self) -> None:
        """Show it no more."""
        self._heartbeat.stop()
