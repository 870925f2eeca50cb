"""One training run of any trainer that prints ML-Agents' summary lines, measured from outside."""

from __future__ import annotations

import copy
import math
import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from lanista.trainers.settings.mlagents_config import own_keys
from lanista.trainers.settings.yaml_source import Source

SUMMARY = re.compile(r"(\S+)\. Step: (\d+)\. Time Elapsed: ([\d.]+) s")
LOOK_SECONDS = 0.25


@dataclass(frozen=True)
class Measured:
    """What a run cost between its first and its last summary; the start is not in it, but for `start_s`."""

    steps: int
    """Agent-steps between the two summaries."""
    steps_per_s: float
    trainer_cpu_us: float
    """Processor time of the trainer's processes, microseconds per agent-step."""
    engine_cpu_us: float
    peak_mib: float
    """Greatest memory of the trainer's processes together (what they share is counted once), MiB."""
    start_s: float
    """From the command to the first environment step; NaN if nobody noted it."""
    others: float
    """Processors that the rest of the machine kept busy meanwhile."""


@dataclass(frozen=True)
class _Moment:
    step: int
    """Of all behaviors together."""
    clock: float
    """The trainer's own clock."""
    wall: float
    trainer: float
    engine: float
    machine: float
    """Processor seconds."""


def peer_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """A configuration as ML-Agents gets it: without the keys that are Lanista's own, which it refuses."""
    copied = copy.deepcopy(settings)
    for path, _ in list(own_keys(Source(copied))):
        section = copied
        for key in path[:-1]:
            section = section[key]
        del section[path[-1]]
    return copied


def free_port() -> int:
    """A port that is free."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


class Watch:
    """The processes of one run: the engine's, and all others as the trainer's."""

    def __init__(self, root: psutil.Process) -> None:
        self._root = root
        self._known: dict[psutil.Process, bool] = {}
        self.peak = 0

    def processes(self) -> list[tuple[psutil.Process, bool]]:
        """Each with whether it is (part of) the engine."""
        found = []
        with suppress(psutil.Error):
            for process in [self._root, *self._root.children(recursive=True)]:
                with suppress(psutil.Error):
                    if not self._known.get(process):  # a fork becomes the engine when it executes it
                        self._known[process] = _is_engine(process.cmdline())
                    found.append((process, self._known[process]))
        return found

    def seconds(self) -> tuple[float, float]:
        """Processor seconds of trainer and engine so far."""
        used = [0.0, 0.0]
        for process, engine in self.processes():
            with suppress(psutil.Error):
                times = process.cpu_times()
                used[engine] += times.user + times.system
        return used[0], used[1]

    def look(self) -> None:
        """Notes how much memory the trainer has now."""
        now = 0
        for process, engine in self.processes():
            if not engine:
                with suppress(psutil.Error):
                    memory = process.memory_full_info()
                    now += getattr(memory, "pss", memory.rss)
        self.peak = max(self.peak, now)


def _is_engine(command: Sequence[str]) -> bool:
    """Whether a process is Unity's or Godot's, by how trainers start those."""
    return any(word == "--mlagents-port" or word.startswith("--env_seed=") for word in command)


def measured_environment() -> dict[str, str]:
    """Of the processes that are measured: Python may keep compiled modules, as it does for users."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONUNBUFFERED": "1"}


def measure(command: Sequence[str], mark: Path | None, log: Path, behaviors: int = 1) -> Measured:
    """Runs a trainer to its end.

    Args:
        command: What starts it.
        mark: Where its engine notes the time of the first step (timed_scene.py); None: it does not.
        log: Gets what it prints.
        behaviors: That it trains; the first summary is then the first of the last of them.

    Raises:
        RuntimeError: It failed, or printed fewer than two summaries.
    """
    if mark is not None:
        mark.unlink(missing_ok=True)
    started = time.time()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=measured_environment()
    )
    watch = Watch(psutil.Process(process.pid))
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_SECONDS):
            watch.look()

    looking = threading.Thread(target=look)
    looking.start()
    try:
        moments = _read(process, watch, log, behaviors)
    finally:
        ended.set()
        looking.join()
        if process.poll() is None:
            process.terminate()
    if process.wait() != 0 or len(moments) < 2:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}; see {log}")
    start = math.nan if mark is None else float(mark.read_text()) - started
    return _between(moments[0], moments[-1], watch.peak, start)


def _read(process: subprocess.Popen[str], watch: Watch, log: Path, behaviors: int) -> list[_Moment]:
    moments: list[_Moment] = []
    steps: dict[str, int] = {}
    assert process.stdout is not None
    with log.open("w") as out:
        for line in process.stdout:
            out.write(line)
            if summary := SUMMARY.search(line):
                steps[summary[1]] = int(summary[2])
                if len(steps) == behaviors:
                    seconds = (float(summary[3]), time.time(), *watch.seconds(), machine_seconds())
                    moments.append(_Moment(sum(steps.values()), *seconds))
    return moments


def machine_seconds() -> float:
    """Processor seconds that the whole machine has spent so far."""
    times = psutil.cpu_times()
    return float(sum(times[:8])) - times.idle - getattr(times, "iowait", 0.0)


def _between(first: _Moment, last: _Moment, peak: int, start: float) -> Measured:
    steps = last.step - first.step
    trainer, engine = last.trainer - first.trainer, last.engine - first.engine
    return Measured(
        steps=steps,
        steps_per_s=steps / (last.clock - first.clock),
        trainer_cpu_us=1e6 * trainer / steps,
        engine_cpu_us=1e6 * engine / steps,
        peak_mib=peak / 2**20,
        start_s=start,
        others=max(0.0, last.machine - first.machine - trainer - engine) / (last.wall - first.wall),
    )
