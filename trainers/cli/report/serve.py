"""`lanista report --watch`: makes the page anew as the runs go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from ...utils.errors import CommandError
from ..runs.record import CARD, is_locked, read_run
from .contents import RunResult, group_runs
from .page import make_page

REFRESH = 5.0
"""Seconds between two looks of the page at its runs."""
Signature = tuple[bool, tuple[tuple[str, int, int], ...]]
"""Whether a process trains the run, and path, time and size of each file."""


class LivePage:
    """The page of runs that may still go on; only runs whose files have changed are read again."""

    def __init__(
        self, find: Callable[[], dict[str, Path]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`find` returns the folders of the runs by name; runs that begin later join."""
        self._find = find
        self._clock = clock
        self._runs: dict[str, tuple[Signature, RunResult]] = {}
        self._page = b""
        self._made = -REFRESH
        self._lock = Lock()

    def read(self) -> bytes:
        """The page, at most `REFRESH` / 2 seconds old; the last one while a run that was named is gone.

        Raises:
            CommandError: at the first reading, a run that was named is not there.
        """
        with self._lock:
            if self._clock() - self._made > REFRESH / 2:
                try:
                    self._update()
                except (CommandError, OSError):  # set aside by --force, for example
                    if not self._page:
                        raise
                self._made = self._clock()
            return self._page

    def _update(self) -> None:
        runs = {}
        for name, path in self._find().items():
            signature = _signature(path)
            before = self._runs.get(name)
            same = before is not None and before[0] == signature
            runs[name] = before if before and same else (signature, RunResult.read(read_run(path, name)))
        changed = {name: one[0] for name, one in runs.items()} != {n: one[0] for n, one in self._runs.items()}
        self._runs = runs
        if changed or not self._page:
            page = make_page(group_runs([run for _, run in runs.values()]), refresh=REFRESH)
            self._page = page.encode()


def _signature(folder: Path) -> Signature:
    """What changes whenever the run's curves, status or state do; a killed process leaves its files alone."""
    found = []
    for path in (*folder.glob("*/*"), folder / "configuration.yaml", folder / CARD):
        try:
            stat = path.stat()
        except OSError:
            continue
        found.append((str(path), stat.st_mtime_ns, stat.st_size))
    return is_locked(folder), tuple(sorted(found))
