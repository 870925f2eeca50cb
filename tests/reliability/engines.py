"""Lets engines fail at random moments, in five ways, and reports the effect on the run.

    python tests/reliability/engines.py [--envs 1 4] [--kinds crash exit lie hang drip] [--kills 5]
                                        [--freezes 1] [--timeout 3]

For every number of environments: engine processes are stepped by one EnvManager, and one of them, chosen
at random, fails at a random step: it is ended by a signal, exits, sends wrong data, is frozen (SIGSTOP) with
its socket open, or sends its next message a byte at a time. The engines are light ones (`faulty_engines.py`);
with --env a scene's or an executable's, of which only crashes and hangs can be had. Reported: how many of
these the run survived, how long the one was missing, what the others lost, and how long any of them had to
wait for its next step meanwhile, beside the longest wait of a quiet time before. Ends with status 1 when a
run did not continue, when another environment lost anything, when an engine outlived the run, or when others
were blocked until the silent one timed out.
"""

from __future__ import annotations

import logging
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script
sys.path.append(str(Path(__file__).parent))

from console_runs import until
from engine_processes import engine_process
from faulty_engines import DRIP, EXIT, LIE, FaultyEngine
from figures import LANISTA, Recorder
from lanista.envs.base import EnvironmentStep
from lanista.envs.manager.manager import EnvManager
from lanista.envs.manager.restarts import RestartLimits
from lanista.envs.unity import UnityEnvironment
from script_options import parse_options

ENDS = (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM)
KINDS = {"crash": ENDS, "exit": (EXIT,), "lie": (LIE,), "hang": (signal.SIGSTOP,), "drip": (DRIP,)}
"""The signals that make an engine fail, by how it fails."""
SILENT = ("hang", "drip")
"""What is only noticed when the time for an answer is over."""
LIGHT = "light"
"""The engines of `faulty_engines.py`."""
LONGEST_STEPS = 200
"""Harm comes after 1 to so many steps of the victim."""
QUIET_SECONDS = 2.0
PATIENCE_SECONDS = 60.0
"""After which a run counts as stuck, beyond the engines' own timeout."""
START_SECONDS = 60.0
"""Within which an engine has to start."""


@dataclass
class Figures:
    """What was seen with one number of environments and one kind of harm."""

    envs: int
    harm: str
    silent: bool = False
    """The harm is only noticed when the time for an answer is over."""
    tried: int = 0
    survived: int = 0
    lost_by_others: int = 0
    """Episodes that other environments lost: they came back as fresh."""
    missing: list[float] = field(default_factory=list)
    """Seconds from the harm to the victim's next step."""
    noticed: list[float] = field(default_factory=list)
    """Seconds from the harm until the manager noticed it."""
    longest_wait: float = 0.0
    """Seconds that any other environment waited for its next step meanwhile."""
    quiet_wait: float = 0.0
    """The same before any harm."""
    outlived: int = 0
    """Engines that were alive after the run."""

    def good(self, timeout: float) -> bool:
        """Whether this is what is promised."""
        return (
            self.survived == self.tried
            and not self.lost_by_others
            and not self.outlived
            and self.longest_wait < timeout / 2
        )

    def row(self) -> str:
        """One line of the table."""
        cells = [
            str(self.envs),
            self.harm,
            f"{self.survived} of {self.tried}",
            str(self.lost_by_others),
            _span(self.noticed),
            _span(self.missing),
            f"{self.longest_wait:.2f}",
            f"{self.quiet_wait:.2f}",
            str(self.outlived),
        ]
        return "| " + " | ".join(cells) + " |"


HEADER = (
    "| environments | harm | runs that went on | episodes lost by others | noticed after s | back after s "
    "| others' longest wait s | the same in quiet | engines left behind |\n" + "|---" * 9 + "|"
)


def _span(seconds: list[float]) -> str:
    return f"{min(seconds):.2f} to {max(seconds):.2f}" if seconds else "-"


class EngineGroup:
    """Engine processes under one manager, stepped with zero actions."""

    def __init__(self, program: str, envs: int, timeout: float, random: Random) -> None:
        self._program = program
        self._timeout = timeout
        self._random = random
        self._newest: dict[int, psutil.Process] = {}
        self._pids: list[int] = []
        self._answered: dict[int, float] = {}
        self.manager = EnvManager(self._make, envs, RestartLimits(-1, -1, 60))
        self.manager.start()
        self._send(self.manager.reset())

    def _make(self, env: int) -> UnityEnvironment:
        made = UnityEnvironment(
            self._program, worker_id=env, seed=env, timeout_wait=START_SECONDS, non_finite=None
        )
        # What is measured is how soon a silence is noticed, not how long Python takes to start.
        made.timeout_wait = made._connection.timeout = self._timeout
        self._newest[env] = engine_process(made.port)
        self._pids.append(self._newest[env].pid)
        return made

    def _send(self, steps: list[EnvironmentStep]) -> None:
        now = time.monotonic()
        for step in steps:
            self._answered[step.env] = now
            self.manager.send(step.env, {})

    def quiet(self, seconds: float) -> float:
        """Step for a while; the longest that any environment waited for its next step."""
        longest, end = 0.0, time.monotonic() + seconds
        while time.monotonic() < end:
            steps = self.manager.wait(1.0)
            now = time.monotonic()
            longest = max([longest, *(now - self._answered[step.env] for step in steps)])
            self._send(steps)
        return longest

    def harm(self, sign: signal.Signals, figures: Figures) -> None:
        """Send a random engine a signal after a random number of steps, and step all until it is back.

        Args:
            sign: the signal.
            figures: where what is seen is added.
        """
        figures.tried += 1
        victim = self._random.randrange(self.manager.num_envs)
        self._steps_of(victim, self._random.randint(1, LONGEST_STEPS))
        time.sleep(self._random.random() * 0.002)  # anywhere within a step
        restarts = self.manager.restarts
        self._newest[victim].send_signal(sign)
        began = time.monotonic()
        noticed = False
        while time.monotonic() - began < self._timeout + PATIENCE_SECONDS:
            steps = self.manager.wait(0.02)
            now = time.monotonic()
            if not noticed and self.manager.restarts > restarts:
                noticed = True
                figures.noticed.append(now - began)
            back = self._watch(steps, victim, now, figures)
            self._send(steps)
            if back:
                figures.survived += 1
                figures.missing.append(now - began)
                return

    def _watch(self, steps: list[EnvironmentStep], victim: int, now: float, figures: Figures) -> bool:
        """Record what others lost and how long they waited; whether the victim is back."""
        for step in steps:
            if step.env != victim:
                figures.lost_by_others += step.fresh
                figures.longest_wait = max(figures.longest_wait, now - self._answered[step.env])
        waiting = [when for env, when in self._answered.items() if env != victim]
        figures.longest_wait = max([figures.longest_wait, *(now - when for when in waiting if not steps)])
        return any(step.env == victim and step.fresh for step in steps)

    def _steps_of(self, env: int, count: int) -> None:
        while count > 0:
            steps = self.manager.wait(PATIENCE_SECONDS)
            count -= sum(step.env == env for step in steps)
            self._send(steps)

    def close(self) -> int:
        """End the run; how many engines live on."""
        self.manager.close()
        until(lambda: not any(map(psutil.pid_exists, self._pids)), PATIENCE_SECONDS)
        return sum(map(psutil.pid_exists, self._pids))


def measure(
    program: str,
    envs: int,
    counts: Mapping[str, int],
    timeout: float,
    seed: int,
    choose: Callable[[int], None],
) -> list[Figures]:
    """The figures of one number of environments.

    Args:
        program: the engines'.
        envs: how many of them.
        counts: how often one fails, by kind.
        timeout: seconds for an answer.
        seed: of the moments.
        choose: says which of a kind's faults comes next.
    """
    words = {
        "crash": "ended by a signal",
        "exit": "ending by itself",
        "lie": "sending wrong data",
        "hang": f"frozen, limit {timeout:g} s",
        "drip": f"sending single bytes, limit {timeout:g} s",
    }
    found = {kind: Figures(envs, words[kind], silent=kind in SILENT) for kind in counts}
    group = EngineGroup(program, envs, timeout, Random(seed))
    try:
        quiet = group.quiet(QUIET_SECONDS)
        for kind, figures in found.items():
            figures.quiet_wait = quiet
            for k in range(counts[kind]):
                choose(k)
                group.harm(KINDS[kind][k % len(KINDS[kind])], figures)
    finally:
        outlived = group.close()
    for figures in found.values():
        figures.outlived = outlived
    return list(found.values())


def main() -> int:
    """Run all, print a table; 0 if everything is as promised."""
    options = parse_options(
        __doc__,
        envs={"default": [1, 4], "help": "numbers of environments"},
        kinds={"default": list(KINDS), "choices": list(KINDS), "help": "how engines fail"},
        kills={"default": 5, "help": "failures of each kind that is noticed at once"},
        freezes={"default": 1, "help": "failures of each kind that is noticed by the time alone"},
        timeout={"default": 3.0, "help": "seconds an engine has for an answer"},
        env={"default": LIGHT, "help": "an executable or a scene, which only crash and hang"},
        seed=0,
        record={"default": False, "help": "keep the figures"},
    )
    if options.env != LIGHT and not {"crash", "hang"}.issuperset(options.kinds):
        raise SystemExit(f"{options.env} only crashes and hangs: --kinds crash hang")
    recorder = Recorder(3, options.record)
    logging.getLogger("lanista").setLevel(logging.ERROR)  # every harm is announced by a warning
    counts = {kind: options.freezes if kind in SILENT else options.kills for kind in options.kinds}
    print(HEADER, flush=True)
    promised = True
    with tempfile.TemporaryDirectory() as scratch:
        light = FaultyEngine(Path(scratch).resolve())
        program = str(light.program) if options.env == LIGHT else options.env
        for envs in options.envs:
            for figures in measure(program, envs, counts, options.timeout, options.seed, light.choose):
                promised &= figures.good(options.timeout)
                report(figures, options.timeout, recorder)
    return 0 if promised else 1


def report(figures: Figures, timeout: float, recorder: Recorder) -> None:
    """Print a line of the table, and keep the figures."""
    print(figures.row(), flush=True)
    good = figures.good(timeout)
    recorder.add(
        *(f"{figures.envs} environments, one is {figures.harm}", LANISTA, figures.tried),
        figures.survived if good or figures.survived < figures.tried else 0,
        worst=figures.longest_wait,
        unit="s of waiting for the others",
        found=f"back after {_span(figures.missing)} s, others lost {figures.lost_by_others} episodes",
        figure=4 if figures.silent else 3,
    )


if __name__ == "__main__":
    sys.exit(main())
