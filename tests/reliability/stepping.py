"""Lanista and ML-Agents stepping an environment on a port, and what is seen of them meanwhile."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script
sys.path.append(str(Path(__file__).parent))

import programs
from figures import LANISTA, ROOT
from lanista.envs.manager.manager import EnvManager
from lanista.envs.remote.server import AttachServer
from lanista.envs.remote.source import AttachSource
from lanista.envs.scenes.registry import export
from lanista.envs.unity import UnityEnvironment

ANSWER_SECONDS = 30.0
SLICE_SECONDS = 0.25
"""How long something is stepped until it is seen whether that was enough."""
SCENE = "basic"


@dataclass
class Outcome:
    """What was seen within a few seconds."""

    steps: int
    seconds: float
    worked: float
    """Seconds of the trainer's processor time."""
    growth: float
    """MiB by which the trainer's memory has grown, at most."""
    lines: int
    """Log lines of any level from INFO on."""

    @property
    def rate(self) -> float:
        """Steps per second."""
        return self.steps / self.seconds

    @property
    def busy(self) -> float:
        """The trainer's processor time, of that of one core."""
        return self.worked / self.seconds

    @property
    def work(self) -> float:
        """Seconds of the trainer's processor time for a step."""
        return self.worked / max(self.steps, 1)


class LineCounter(logging.Handler):
    """Counts log lines."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count one."""
        self.lines += 1


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def start(*command: object, stdout: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A Python program that is killed in the end."""
    words = [sys.executable, *map(str, command)]
    process = subprocess.Popen(words, stdout=stdout, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def trainer(mode: str, port: int) -> Iterator[EnvManager]:
    """A manager with one environment on this port, which has been reset."""
    with ExitStack() as stack:
        if mode != "launched":
            scene = ("-m", "lanista.envs.scenes", SCENE, "--mlagents-port", port)
            stack.enter_context(start(*scene))
        if mode == "listen":
            source = AttachSource(
                lambda on_engine: AttachServer("localhost", port, on_engine=on_engine),
                lambda index, engine: UnityEnvironment(
                    connect=lambda _: engine.connection(engine.where, ANSWER_SECONDS),
                    non_finite=None,
                    timeout_wait=ANSWER_SECONDS,
                ),
            )
            manager = EnvManager(None, 1, source=source, spin=False)
        else:
            name = f"scene:{SCENE}" if mode == "launched" else None
            manager = EnvManager(
                lambda index: UnityEnvironment(
                    name, base_port=port, non_finite=None, timeout_wait=ANSWER_SECONDS
                ),
                1,
                spin=False,
            )
        stack.callback(manager.close)
        manager.start()
        for step in manager.reset():
            manager.send(step.env, {})
        yield manager


class Stepping:
    """Something that steps an environment."""

    def __init__(self, process: psutil.Process) -> None:
        self.process = process
        """That meets the engine."""

    def step_for(self, seconds: float) -> int:
        """Steps that it makes in so many seconds."""
        raise NotImplementedError

    def watch(self, seconds: float) -> Outcome:
        """Let it step for so long, and see what happens."""
        end = time.perf_counter() + seconds
        return self.watch_while(lambda: time.perf_counter() < end, min(seconds, SLICE_SECONDS))

    def watch_while(self, goes_on: Callable[[], bool], piece: float = SLICE_SECONDS) -> Outcome:
        """Let it step for as long as something goes on, which is asked every `piece` seconds."""
        counter, ended = LineCounter(), threading.Event()
        logging.getLogger("lanista").addHandler(counter)
        before = peak = self._memory()

        def sample() -> None:
            nonlocal peak
            while not ended.wait(0.05):
                peak = max(peak, self._memory())

        sampler = threading.Thread(target=sample)
        sampler.start()
        begin, worked = time.perf_counter(), self._worked()
        steps = 0
        while goes_on():
            steps += self.step_for(piece)
        elapsed, worked = time.perf_counter() - begin, self._worked() - worked
        ended.set()
        sampler.join()
        logging.getLogger("lanista").removeHandler(counter)
        return Outcome(steps, elapsed, worked, (peak - before) / 2**20, counter.lines)

    def _memory(self) -> int:
        try:
            return int(self.process.memory_info().rss)
        except psutil.NoSuchProcess:
            return 0

    def _worked(self) -> float:
        try:
            times = self.process.cpu_times()
        except psutil.NoSuchProcess:
            return 0.0
        return float(times.user + times.system)


class LanistaStepping(Stepping):
    """Environment 0 of a manager of this process."""

    def __init__(self, manager: EnvManager) -> None:
        super().__init__(psutil.Process())
        self.manager = manager

    def step_for(self, seconds: float) -> int:
        """Steps that it makes in so many seconds."""
        end, steps = time.perf_counter() + seconds, 0
        while time.perf_counter() < end:
            for step in self.manager.wait(0.1):
                steps += step.env == 0
                if not step.left:
                    self.manager.send(step.env, {})
        return steps


class MLAgentsStepping(Stepping):
    """ML-Agents' UnityEnvironment in a process of its own, which says how far it is."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__(psutil.Process(process.pid))
        self.steps = 0
        assert process.stdout is not None
        self.steps = int(process.stdout.readline())  # the first comes when the engine is there
        threading.Thread(target=self._read, args=(process.stdout,), daemon=True).start()

    def _read(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.steps = int(line)

    def step_for(self, seconds: float) -> int:
        """Steps that it makes in so many seconds."""
        before = self.steps
        time.sleep(seconds)
        return self.steps - before


@contextmanager
def stepping(product: str, mode: str, port: int) -> Iterator[Stepping]:
    """An environment on this port that has been reset."""
    if product == LANISTA:
        with trainer(mode, port) as manager:
            yield LanistaStepping(manager)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        game = export(SCENE, folder / f"{SCENE}.x86_64") if mode == "launched" else "-"
        script = ROOT / "tests" / "peer" / "step_on.py"
        command = [programs.python(product), "-W", "ignore", str(script), str(game), str(port)]
        with ExitStack() as stack, (folder / "errors.txt").open("w") as errors:
            process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True)
            if mode != "launched":
                stack.enter_context(start("-m", "lanista.envs.scenes", SCENE, "--mlagents-port", port))
            try:
                yield MLAgentsStepping(process)
            finally:
                process.kill()
                process.wait()
                programs.end_left_behind(folder, 1.0)
