"""One training run of field.py, of which the environments themselves tell what happened in it."""

from __future__ import annotations

import math
import os
import subprocess
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from products import CommandFailedError
from training_run import LOOK_SECONDS, Watch, machine_seconds, measured_environment

WINDOW = 100
"""Episodes of whose returns the mean is taken."""
WARM_UP = 0.1
"""The share of the time from the first episode's end to the last one's that is not in the rate."""
LONGEST = 3600.0
"""Seconds after which a run is given up."""


@dataclass(frozen=True, order=True)
class Line:
    """Of the file that tests/peer/field_environments.py writes."""

    time: float
    earned: float
    """The return of an episode that has ended."""
    length: int
    """Its steps; 0: no episode, but the first step of a process."""
    process: int
    steps: int
    """Of all environments of this process until then."""


@dataclass(frozen=True)
class Found:
    """What a run's environments tell, and what it took."""

    steps: int
    """Until the last episode that ended."""
    steps_per_s: float
    start_s: float
    """From the command to the first step of an environment."""
    threshold_s: float
    """From the command until the mean of the latest episodes first was the wanted one; NaN: it never was."""
    threshold_steps: float
    last_mean: float
    """Of the latest episodes at the end."""
    peak_mib: float
    """Greatest memory of all processes together (what they share is counted once), MiB."""
    others: float
    """Processors that the rest of the machine kept busy meanwhile."""


def read_lines(path: Path) -> list[Line]:
    """Of all processes, by time."""
    words = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    return sorted(Line(float(a), float(b), int(c), int(d), int(e)) for a, b, c, d, e in words)


def rate(episodes: Sequence[Line]) -> float:
    """Steps per second after the warm-up: the sum of what each process made between its episodes' ends."""
    first, last = episodes[0].time, episodes[-1].time
    late = [line for line in episodes if line.time >= first + WARM_UP * (last - first)]
    total = 0.0
    for process in {line.process for line in late}:
        own = [line for line in late if line.process == process]
        if own[-1].time > own[0].time:
            total += (own[-1].steps - own[0].steps) / (own[-1].time - own[0].time)
    return total


def when_reached(episodes: Sequence[Line], threshold: float) -> tuple[float, float]:
    """The time, and the steps of all processes, when the latest episodes first had the mean; NaN if never."""
    latest: deque[float] = deque(maxlen=WINDOW)
    steps: dict[int, int] = {}
    for line in episodes:
        latest.append(line.earned)
        steps[line.process] = line.steps
        if len(latest) == WINDOW and sum(latest) / WINDOW >= threshold:
            return line.time, float(sum(steps.values()))
    return math.nan, math.nan


class Load:
    """The memory of a run's processes, and how busy the rest of the machine was, looked at while it runs."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.watch = Watch(psutil.Process(process.pid))
        self._began = self._latest = (time.time(), machine_seconds(), 0.0)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self.watch.look()
            own = sum(self.watch.seconds())
            if own >= self._latest[2]:  # less: processes have ended, and took their times with them
                self._latest = (time.time(), machine_seconds(), own)

    def others(self) -> float:
        """Processors that others kept busy; NaN if the run was too short to look."""
        wall, machine, own = (now - then for now, then in zip(self._latest, self._began))
        return max(0.0, machine - own) / wall if wall else math.nan


def run(command: Sequence[str], folder: Path, modules: Path, threshold: float) -> Found:
    """Train once.

    Args:
        command: What starts it.
        folder: Its working directory, which also gets what it prints and what its environments write.
        modules: The folder of the module of the environments.
        threshold: The mean return that is wanted.

    Raises:
        CommandFailedError: it ended with an error, or too few episodes did.
    """
    log = folder / "episodes.txt"
    environment = measured_environment() | {"FIELD_LOG": str(log)}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(modules), os.environ.get("PYTHONPATH")]))
    began = time.time()
    with (folder / "printed.txt").open("wb") as printed:
        process = subprocess.Popen(
            command, stdout=printed, stderr=subprocess.STDOUT, cwd=folder, env=environment
        )
    with Load(process) as load:
        _wait(process, load.watch)
    lines = read_lines(log) if log.exists() else []
    episodes = [line for line in lines if line.length]
    if process.returncode != 0 or len(episodes) < 2:
        text = (folder / "printed.txt").read_text(encoding="utf-8", errors="replace")[-4000:]
        raise CommandFailedError(f"{' '.join(command)}\nended with {process.returncode}:\n{text}")
    moment, steps = when_reached(episodes, threshold)
    latest = [line.earned for line in episodes[-WINDOW:]]
    return Found(
        steps=sum({line.process: line.steps for line in episodes}.values()),
        steps_per_s=rate(episodes),
        start_s=lines[0].time - began,
        threshold_s=moment - began,
        threshold_steps=steps,
        last_mean=sum(latest) / len(latest),
        peak_mib=load.watch.peak / 2**20,
        others=load.others(),
    )


def _wait(process: subprocess.Popen[bytes], watch: Watch) -> None:
    """Until the run ends; one that takes too long, or is interrupted, is ended with all its processes."""
    try:
        process.wait(LONGEST)
    except BaseException as error:
        for each, _ in watch.processes():
            with suppress(psutil.Error):
                each.kill()
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
