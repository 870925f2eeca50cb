"""Steps of a run while a stranger hits the port on which the trainer meets its engine.

    python tests/reliability/strangers.py [--modes launched] [--callers pings http] [--seconds 5]

Modes: `launched`, the trainer has started its engine; `editor`, it waits for one that somebody else starts;
`listen`, engines that run already come and go. For each kind of hostile caller (`hostile_callers.py`) it
steps an environment while the caller hits another program's port, for it takes processor time by itself, and
while it hits the trainer's. It prints the steps per second of both, which tell little on a machine that does
other things too; and of the second the trainer's processor time beyond what as many steps take by
themselves, the growth of its memory, and the number of its log lines.

Ends with status 1 when a caller takes more than --core of a core's time, memory grows by more than 64 MiB,
more than ten lines are logged, or the engine is lost.
"""

from __future__ import annotations

import logging
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script

from hostile_callers import CALLERS
from lanista.envs.manager.manager import EnvManager
from lanista.envs.remote.server import AttachServer
from lanista.envs.remote.source import AttachSource
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


def watch(manager: EnvManager, seconds: float) -> Outcome:
    """Step environment 0, and see what happens."""
    counter, process = LineCounter(), psutil.Process()
    logging.getLogger("lanista").addHandler(counter)
    before = peak = process.memory_info().rss
    begin, worked = time.perf_counter(), time.process_time()
    ended, steps = threading.Event(), 0

    def sample() -> None:
        nonlocal peak
        while not ended.wait(0.05):
            peak = max(peak, process.memory_info().rss)

    sampler = threading.Thread(target=sample)
    sampler.start()
    while (elapsed := time.perf_counter() - begin) < seconds:
        for step in manager.wait(0.1):
            steps += step.env == 0
            if not step.left:
                manager.send(step.env, {})
    worked = time.process_time() - worked
    ended.set()
    sampler.join()
    logging.getLogger("lanista").removeHandler(counter)
    return Outcome(steps / elapsed, worked / elapsed, (peak - before) / 2**20, counter.lines)


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


def compare(mode: str, caller: str, seconds: float, rounds: int) -> tuple[Outcome, Outcome]:
    """What happens while the stranger hits another program, and while it hits the trainer; medians."""
    port = free_port()
    found: tuple[list[Outcome], list[Outcome]] = [], []
    other = subprocess.Popen(
        [sys.executable, __file__, "--other-program"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert other.stdout is not None
        elsewhere = int(other.stdout.readline())
        with trainer(mode, port) as manager:
            watch(manager, 1.0)  # warms up
            for _ in range(rounds):
                for target, outcomes in zip((elsewhere, port), found, strict=True):
                    with start(Path(__file__).with_name("hostile_callers.py"), caller, target):
                        watch(manager, 1.5)  # the program starts
                        outcomes.append(watch(manager, seconds))
                    watch(manager, 0.5)  # what it has left behind ends
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
        other_program={"default": False, "help": "be the other program"},
    )
    if options.other_program:
        serve_other_program()
        return 0
    logging.getLogger("lanista").setLevel(logging.INFO)
    logging.getLogger("lanista").addHandler(logging.NullHandler())
    logging.getLogger("lanista").propagate = False
    kept = True
    print(f"{'':28}{'steps per second':>20}{'of a core':>12}{'MiB':>8}{'lines':>7}")
    print(f"{'mode':10}{'caller':18}{'other port':>12}{'here':>8}{'taken':>12}{'grown':>8}{'logged':>7}")
    for mode in options.modes:
        for caller in options.callers:
            other, here = compare(mode, caller, options.seconds, options.rounds)
            # Beyond what as many steps take while nobody calls.
            taken = here.busy - other.busy * here.rate / max(other.rate, 1e-9)
            good = taken <= options.core and here.growth <= MOST_MIB and here.lines <= MOST_LINES
            kept = kept and good
            print(
                f"{mode:10}{caller:18}{other.rate:12.0f}{here.rate:8.0f}{taken:12.2f}{here.growth:8.1f}"
                f"{here.lines:7}{'' if good else '  <-'}",
                flush=True,
            )
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
