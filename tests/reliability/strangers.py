"""Steps of a run while a stranger hits the port on which the trainer meets its engine.

    python tests/reliability/strangers.py [--modes launched] [--callers pings http] [--rounds 8] [--seconds 1]
                                          [--products Lanista ML-Agents]
    python tests/reliability/strangers.py --callers crowd --connections 10000

Modes: `launched`, the trainer has started its engine; `editor`, it waits for one that somebody else starts;
`listen`, engines that run already come and go. For each kind of hostile caller (`hostile_callers.py`) it
steps an environment, in turns while the caller hits another program's port, for it takes processor time by
itself, and while it hits the trainer's. It prints the steps per second of both; of the second the trainer's
processor time beyond what as many steps take by themselves, the growth of its memory, and the number of its
log lines; and two shares: of the steps per second that are left, the median over the pairs of turns, and of
the steps per second of the trainer's processor time. The first is what a user sees, the second says more on
a machine that does other things too.

`crowd` makes so many connections of all kinds from eight threads, and `--connections` says how many.

ML-Agents lacks the mode `listen`: its UnityEnvironment steps the same scene in the others.

Ends with status 1 when with Lanista a caller takes more than --core of a core's time, memory grows by more
than 64 MiB, more than ten lines are logged, the engine is lost, or less than --share is left in both of the
two ways.
"""

from __future__ import annotations

import argparse
import logging
import signal
import socket
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script
sys.path.append(str(Path(__file__).parent))

import programs
from figures import LANISTA, Recorder
from hostile_callers import CALLERS, CROWD
from script_options import parse_options
from stepping import Outcome, Stepping, free_port, start, stepping

MODES = ("launched", "editor", "listen")
MOST_MIB = 64.0
MOST_LINES = 10
SETTLE_SECONDS = 0.2
"""Between two turns."""


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


@contextmanager
def other_port() -> Iterator[int]:
    """The port of the other program, while it runs."""
    other = subprocess.Popen(
        [sys.executable, __file__, "--other-program"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert other.stdout is not None
        yield int(other.stdout.readline())
    finally:
        other.kill()
        other.wait()


@dataclass
class Comparison:
    """What was seen turn by turn while a stranger hit another program's port, and the trainer's."""

    other: list[Outcome] = field(default_factory=list)
    here: list[Outcome] = field(default_factory=list)
    let_in: int | None = None
    """Connections to the trainer that could be established within the time; of a crowd."""

    @property
    def share(self) -> float:
        """Of the steps per second that are left, the median over the pairs."""
        pairs = zip(self.other, self.here, strict=True)
        return statistics.median(here.rate / max(other.rate, 1e-9) for other, here in pairs)

    @property
    def work_share(self) -> float:
        """Of the steps that a second of the trainer's processor time makes."""
        other, here = (
            sum(o.steps for o in outcomes) / max(sum(o.worked for o in outcomes), 1e-9)
            for outcomes in (self.other, self.here)
        )
        return here / max(other, 1e-9)

    @property
    def taken(self) -> float:
        """Of a core's time, beyond what as many steps take while nobody calls."""
        steps, worked = (sum(getattr(o, key) for o in self.other) for key in ("steps", "worked"))
        expected = worked / max(steps, 1) * sum(o.steps for o in self.here)
        return (sum(o.worked for o in self.here) - expected) / sum(o.seconds for o in self.here)

    @property
    def growth(self) -> float:
        """MiB."""
        return max(o.growth for o in self.here)

    @property
    def lines(self) -> int:
        """Log lines in one turn."""
        return max(o.lines for o in self.here)

    @property
    def alive(self) -> bool:
        """Whether it still stepped in the end."""
        return self.here[-1].steps > 0


def in_turns(run: Stepping, caller: str, ports: tuple[int, int], seconds: float, rounds: int) -> Comparison:
    """What happens while a stranger hits each of two ports, the trainer's last, of which one rests."""
    found, program = Comparison(), Path(__file__).with_name("hostile_callers.py")
    with start(program, caller, ports[0]) as elsewhere, start(program, caller, ports[1]) as here:
        run.watch(1.5)  # the programs start
        for process in (elsewhere, here):
            process.send_signal(signal.SIGSTOP)
        for _ in range(rounds):
            for process, outcomes in ((elsewhere, found.other), (here, found.here)):
                process.send_signal(signal.SIGCONT)
                run.watch(SETTLE_SECONDS)
                outcomes.append(run.watch(seconds))
                process.send_signal(signal.SIGSTOP)
                run.watch(SETTLE_SECONDS)
    return found


def in_crowds(run: Stepping, ports: tuple[int, int], connections: int, rounds: int) -> Comparison:
    """The same while so many connections are made to each port, in so many turns."""
    found, program = Comparison(let_in=0), Path(__file__).with_name("hostile_callers.py")
    for _ in range(rounds):
        for port, outcomes in zip(ports, (found.other, found.here), strict=True):
            with start(program, CROWD, port, connections // rounds, stdout=subprocess.PIPE) as crowd:
                outcomes.append(run.watch_while(still_runs(crowd)))
                assert crowd.stdout is not None and found.let_in is not None
                found.let_in += int(crowd.stdout.read()) if port == ports[1] else 0
            run.watch(SETTLE_SECONDS)
    return found


def still_runs(process: subprocess.Popen[bytes]) -> Callable[[], bool]:
    """Whether it does, as a question."""
    return lambda: process.poll() is None


def compare(product: str, mode: str, caller: str, options: argparse.Namespace) -> Comparison:
    """What happens while the stranger hits another program, and while it hits the trainer."""
    # The port is chosen when the other program holds its own, which could otherwise be the same.
    with other_port() as elsewhere, stepping(product, mode, port := free_port()) as run:
        run.watch(1.0)  # warms up
        if caller == CROWD:
            return in_crowds(run, (elsewhere, port), options.connections, options.rounds)
        return in_turns(run, caller, (elsewhere, port), options.seconds, options.rounds)


def main() -> int:
    """Run and print; 0 if everything is as promised."""
    options = parse_options(
        __doc__,
        modes={"default": list(MODES), "choices": MODES},
        callers={"default": list(CALLERS), "choices": [*CALLERS, CROWD]},
        seconds={"default": 1.0, "help": "of each turn"},
        rounds={"default": 8, "help": "pairs of turns"},
        connections={"default": 10_000, "help": "of a crowd"},
        core={"default": 0.1, "help": "of a core's time that a stranger may take"},
        share={"default": 0.9, "help": "that must be left of the steps"},
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
    print(f"{'':28}{'steps per second':>20}{'share':>8}{'of work':>9}{'of a core':>11}{'MiB':>8}{'lines':>7}")
    for product in options.products:
        for mode in options.modes:
            if product != LANISTA and mode == "listen":
                continue
            for name, callers in grouped(options.callers):
                rows = {caller: compare(product, mode, caller, options) for caller in callers}
                good = [judge(mode, caller, found, options) for caller, found in rows.items()]
                kept = kept and (all(good) or product != LANISTA)
                record(recorder, f"{name}, {mode}", product, list(rows.values()), good, options)
    return 0 if kept else 1


def grouped(callers: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The callers of each row that is kept, with its name."""
    if each := [caller for caller in callers if caller != CROWD]:
        yield "hostile callers", each
    if CROWD in callers:
        yield "hostile connections", [CROWD]


def judge(mode: str, caller: str, found: Comparison, options: argparse.Namespace) -> bool:
    """Print what was found; whether it is as promised."""
    good = found.taken <= options.core and found.growth <= MOST_MIB and found.lines <= MOST_LINES
    good = good and found.alive and max(found.share, found.work_share) >= options.share
    other, here = (statistics.median(o.rate for o in outcomes) for outcomes in (found.other, found.here))
    print(
        f"{mode:10}{caller:18}{other:12.0f}{here:8.0f}{found.share:8.2f}{found.work_share:9.2f}{found.taken:11.3f}"
        f"{found.growth:8.1f}{found.lines:7}{'' if good else '  <-'}",
        flush=True,
    )
    return good


def record(
    recorder: Recorder,
    case: str,
    product: str,
    found: list[Comparison],
    good: list[bool],
    options: argparse.Namespace,
) -> None:
    """Keep the figures of some callers, or those of a crowd, which count by its connections."""
    shares = [f"{min(getattr(each, key) for each in found):.2f}" for key in ("share", "work_share")]
    text = f"memory grew by at most {max(each.growth for each in found):.1f} MiB, at most "
    text += f"{max(each.lines for each in found)} log lines in a turn; of the steps per second at least "
    text += f"{shares[0]} were left, of those per second of the trainer's processor time {shares[1]}"
    tried, held = len(good), sum(good)
    if case.startswith("hostile connections"):
        tried, held = options.connections, options.connections * held
        text += f"; {found[0].let_in} connections could be established within the time"
    worst = max(each.taken for each in found)
    recorder.add(case, product, tried, held, worst=worst, unit="of a core", found=text)


if __name__ == "__main__":
    sys.exit(main())
