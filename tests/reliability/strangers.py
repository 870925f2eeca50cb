"""Steps of a run while a stranger hits the port on which the trainer meets its engine.

    python tests/reliability/strangers.py [--modes launched] [--callers pings http] [--seconds 5]
                                          [--products Lanista ML-Agents]

Modes: `launched`, the trainer has started its engine; `editor`, it waits for one that somebody else starts;
`listen`, engines that run already come and go. For each kind of hostile caller (`hostile_callers.py`) it
steps an environment while the caller hits another program's port, for it takes processor time by itself, and
while it hits the trainer's. It prints the steps per second of both, which tell little on a machine that does
other things too; and of the second the trainer's processor time beyond what as many steps take by
themselves, the growth of its memory, and the number of its log lines.

ML-Agents has only the mode `launched`: its UnityEnvironment steps the same scene.

Ends with status 1 when with Lanista a caller takes more than --core of a core's time, memory grows by more
than 64 MiB, more than ten lines are logged, the engine is lost, or less than --share of the steps is left.
"""

from __future__ import annotations

import logging
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script
sys.path.append(str(Path(__file__).parent))

import programs
from figures import LANISTA, ROOT, Recorder
from hostile_callers import CALLERS
from lanista.envs.manager.manager import EnvManager
from lanista.envs.remote.server import AttachServer
from lanista.envs.remote.source import AttachSource
from lanista.envs.scenes.registry import export
from lanista.envs.unity import UnityEnvironment
from script_options import parse_options

MODES = ("launched", "editor", "listen")
MOST_MIB = 64.0
MOST_LINES = 10
ANSWER_SECONDS = 30.0
SCENE = "basic"


@dataclass
class Outcome:
    """What was seen within a few seconds."""

    rate: float
    """Steps per second."""
    busy: float
    """The trainer's processor time, of that of one core."""
    growth: float
    """MiB by which the trainer's memory has grown, at most."""
    lines: int
    """Log lines of any level from INFO on."""


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
def start(*command: object) -> Iterator[subprocess.Popen[bytes]]:
    """A Python program that is killed in the end."""
    process = subprocess.Popen([sys.executable, *map(str, command)], stderr=subprocess.DEVNULL)
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
        """Let it step, and see what happens."""
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
        steps = self.step_for(seconds)
        elapsed, worked = time.perf_counter() - begin, self._worked() - worked
        ended.set()
        sampler.join()
        logging.getLogger("lanista").removeHandler(counter)
        return Outcome(steps / elapsed, worked / elapsed, (peak - before) / 2**20, counter.lines)

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
        game = export(SCENE, folder / f"{SCENE}.x86_64")
        script = ROOT / "tests" / "peer" / "step_on.py"
        command = [programs.python(product), "-W", "ignore", str(script), str(game), str(port)]
        with (folder / "errors.txt").open("w") as errors:
            process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            yield MLAgentsStepping(process)
        finally:
            process.kill()
            process.wait()
            programs.end_left_behind(folder, 1.0)


def other_program(listener: socket.socket) -> None:
    """A program that reads as much of each connection as a trainer does of a stranger's, and closes it."""
    while True:
        try:
            caller, _ = listener.accept()
        except OSError:
            return
        with caller:
            left = 1 << 16
            caller.settimeout(0.2)
            try:
                while left > 0 and (data := caller.recv(left)):
                    left -= len(data)
            except OSError:
                pass


def serve_other_program() -> None:
    """Serve it, and print its port; the entry point of a process of its own."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        print(listener.getsockname()[1], flush=True)
        other_program(listener)


def compare(product: str, mode: str, caller: str, seconds: float, rounds: int) -> tuple[Outcome, Outcome]:
    """What happens while the stranger hits another program, and while it hits the trainer; medians."""
    port = free_port()
    found: tuple[list[Outcome], list[Outcome]] = [], []
    other = subprocess.Popen(
        [sys.executable, __file__, "--other-program"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert other.stdout is not None
        elsewhere = int(other.stdout.readline())
        with stepping(product, mode, port) as run:
            run.watch(1.0)  # warms up
            for _ in range(rounds):
                for target, outcomes in zip((elsewhere, port), found, strict=True):
                    with start(Path(__file__).with_name("hostile_callers.py"), caller, target):
                        run.watch(1.5)  # the program starts
                        outcomes.append(run.watch(seconds))
                    run.watch(0.5)  # what it has left behind ends
    finally:
        other.kill()
        other.wait()
    first, second = (
        Outcome(
            statistics.median(o.rate for o in outcomes),
            statistics.median(o.busy for o in outcomes),
            max(o.growth for o in outcomes),
            max(o.lines for o in outcomes),
        )
        for outcomes in found
    )
    return first, second


def main() -> int:
    """Run and print; 0 if everything is as promised."""
    options = parse_options(
        __doc__,
        modes={"default": list(MODES), "choices": MODES},
        callers={"default": list(CALLERS), "choices": list(CALLERS)},
        seconds={"default": 5.0, "help": "of each measurement"},
        rounds={"default": 3, "help": "measurements in alternation, of which the median counts"},
        core={"default": 0.1, "help": "of a core's time that a stranger may take"},
        share={"default": 0.3, "help": "of the steps while it hits another program's port that must be left"},
        products=programs.OPTION,
        record={"default": False, "help": "keep the figures"},
        other_program={"default": False, "help": "be the other program"},
    )
    if options.other_program:
        serve_other_program()
        return 0
    logging.getLogger("lanista").setLevel(logging.INFO)
    logging.getLogger("lanista").addHandler(logging.NullHandler())
    logging.getLogger("lanista").propagate = False
    recorder, kept = Recorder(5, options.record), True
    print(f"{'':28}{'steps per second':>20}{'of a core':>12}{'MiB':>8}{'lines':>7}")
    print(f"{'mode':10}{'caller':18}{'other port':>12}{'here':>8}{'taken':>12}{'grown':>8}{'logged':>7}")
    for product in options.products:
        for mode in options.modes if product == LANISTA else ("launched",):
            held, worst, most, least = 0, 0.0, 0.0, 1.0
            for caller in options.callers:
                other, here = compare(product, mode, caller, options.seconds, options.rounds)
                # Beyond what as many steps take while nobody calls.
                taken = here.busy - other.busy * here.rate / max(other.rate, 1e-9)
                share = here.rate / max(other.rate, 1e-9)
                good = taken <= options.core and here.growth <= MOST_MIB and here.lines <= MOST_LINES
                good = good and share >= options.share
                held, worst = held + good, max(worst, taken)
                most, least = max(most, here.growth), min(least, share)
                kept = kept and (good or product != LANISTA)
                print(
                    f"{mode:10}{caller:18}{other.rate:12.0f}{here.rate:8.0f}{taken:12.2f}{here.growth:8.1f}"
                    f"{here.lines:7}{'' if good else '  <-'}",
                    flush=True,
                )
            found = f"memory grew by at most {most:.1f} MiB, at least {least:.2f} of the steps were left"
            case, tried = f"hostile callers, {mode}", len(options.callers)
            recorder.add(case, product, tried, held, worst=worst, unit="of a core", found=found)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
