"""Kills and freezes engines at random moments and reports the effect on the run.

    python tests/reliability/engines.py [--envs 1 4] [--kills 5] [--freezes 1] [--timeout 3]

For every number of environments: engine processes are stepped by one EnvManager, and one of them, chosen
at random, is ended by a signal at a random step; then one is frozen (SIGSTOP) with its socket open.
Reported: how many of these the run survived, how long the one was missing, what the others lost, and how
long any of them had to wait for its next step meanwhile, beside the longest wait of a quiet time before.
Ends with status 1 when a run did not continue, when another environment lost anything, when an engine
outlived the run, or when others were blocked until the frozen one timed out.
"""

from __future__ import annotations

import logging
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script
sys.path.append(str(Path(__file__).parent))

from engine_processes import engine_process
from figures import LANISTA, Recorder
from lanista.envs.base import EnvironmentStep
from lanista.envs.manager.manager import EnvManager
from lanista.envs.manager.restarts import RestartLimits
from lanista.envs.unity import UnityEnvironment
from script_options import parse_options

ENDS = (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM)
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
        """Send a random engine a signal after a random number of steps, and step all until it is back."""
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
        return sum(psutil.pid_exists(pid) for pid in self._pids)


def measure(program: str, envs: int, kills: int, freezes: int, timeout: float, seed: int) -> list[Figures]:
    """The figures of one number of environments: engines that are ended, and engines that freeze."""
    group = EngineGroup(program, envs, timeout, Random(seed))
    ended, frozen = Figures(envs, "ended by a signal"), Figures(envs, f"frozen, limit {timeout:g} s")
    try:
        ended.quiet_wait = frozen.quiet_wait = group.quiet(QUIET_SECONDS)
        for k in range(kills):
            group.harm(ENDS[k % len(ENDS)], ended)
        for _ in range(freezes):
            group.harm(signal.SIGSTOP, frozen)
    finally:
        ended.outlived = frozen.outlived = group.close()
    return [figures for figures in (ended, frozen) if figures.tried]


def main() -> int:
    """Run all, print a table; 0 if everything is as promised."""
    options = parse_options(
        __doc__,
        envs={"default": [1, 4], "help": "numbers of environments"},
        kills={"default": 5, "help": "engines ended per number of environments"},
        freezes={"default": 1, "help": "engines frozen per number of environments"},
        timeout={"default": 3.0, "help": "seconds an engine has for an answer"},
        env={"default": "scene:basic", "help": "an executable or a scene"},
        seed=0,
        record={"default": False, "help": "keep the figures"},
    )
    recorder = Recorder(3, options.record)
    logging.getLogger("lanista").setLevel(logging.ERROR)  # every harm is announced by a warning
    print(HEADER, flush=True)
    promised = True
    for envs in options.envs:
        for figures in measure(
            options.env, envs, options.kills, options.freezes, options.timeout, options.seed
        ):
            print(figures.row(), flush=True)
            good = figures.good(options.timeout)
            promised = promised and good
            frozen = figures.harm.startswith("frozen")
            recorder.add(
                *(f"{envs} environments, one is {figures.harm}", LANISTA, figures.tried),
                figures.survived if good or figures.survived < figures.tried else 0,
                worst=figures.longest_wait,
                unit="s of waiting for the others",
                found=f"back after {_span(figures.missing)} s, others lost {figures.lost_by_others} episodes",
                figure=4 if frozen else 3,
            )
    return 0 if promised else 1


if __name__ == "__main__":
    sys.exit(main())
