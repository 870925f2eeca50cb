"""Kills training runs at random moments, again and again, and resumes them each time.

    python tests/reliability/kills.py [--cases ppo sac ...] [--kills 20] [--products Lanista ML-Agents]

The runs are those of the real `lanista-learn` and `mlagents-learn` with engine processes; each kill is a
SIGKILL at a random moment from its start to about two checkpoints after it trained. In the case `saves` it
comes when a checkpoint's file changes, in `launches` mostly before the run trains, with six engines. In
`ranks` it hits any of two learners; the other one has to end by itself. A kill held when the next process
that came as far went on with at most one interval of steps lost. Ends with status 1 when one of Lanista's did
not, or an engine or a learner lived on.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script
sys.path.append(str(Path(__file__).parent))

import programs
import psutil
from console_runs import PATIENCE, until, weights_are_finite
from figures import LANISTA, Recorder
from script_options import parse_options

SUMMARY = 500
ORPHAN_SECONDS = 10.0
"""Engines that lost their trainer have so long; Lanista's guard gives them three seconds."""
RANKS = "lanista.trainers.runner.ranks"
"""In the command lines of learners that are not the first."""
RESUMED = re.compile(r"resuming training from step (\d+)", re.IGNORECASE)
STEP = re.compile(r"\] ([^\s\]]+)\. Step: (\d+)")
NETWORK = {"normalize": True, "hidden_units": 32, "num_layers": 1}
ON_POLICY = {"batch_size": 64, "buffer_size": 1000}
OFF_POLICY = {"batch_size": 32, "buffer_size": 5000, "buffer_init_steps": 200, "steps_per_update": 20}
LESSONS = [
    {
        "name": f"Lesson{k}",
        "value": float(k),
        "completion_criteria": {
            "measure": "progress", "behavior": "3DBall", "threshold": 2e-6 * k, "min_lesson_length": 1
        },
    }
    for k in (1, 2, 3, 4)
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A kind of run, and when it is killed."""

    scene: str = "ball3d"
    behaviors: tuple[str, ...] = ("3DBall",)
    settings: dict[str, Any] = field(default_factory=dict)
    """Of each behavior, beyond the shared ones."""
    others: dict[str, Any] = field(default_factory=dict)
    """Sections beside the behaviors."""
    interval: int = 3000
    envs: int = 1
    learners: int = 1
    early: float = 0.2
    """Share of the kills that come before the run trains."""
    saves: bool = False
    """Whether the others come in the midst of a save."""
    lanista_only: bool = False

    def configuration(self) -> dict[str, Any]:
        """The run's."""
        lengths = {"max_steps": 10**9, "time_horizon": 64, "summary_freq": SUMMARY, "keep_checkpoints": 3}
        settings = {"trainer_type": "ppo", "hyperparameters": ON_POLICY, "network_settings": NETWORK}
        settings |= {**lengths, "checkpoint_interval": self.interval, **self.settings}
        return {"behaviors": dict.fromkeys(self.behaviors, settings), **self.others}


def off_policy(trainer: str, **keys: Any) -> Case:
    """A run that learns from a replay; ML-Agents has SAC alone."""
    settings = {"trainer_type": trainer, "hyperparameters": OFF_POLICY}
    return Case(settings=settings, interval=2000, lanista_only=trainer != "sac", **keys)


def of_teams(trainer: str) -> Case:
    """A run of a group's agents; ML-Agents has POCA alone."""
    settings = {"trainer_type": trainer, "time_horizon": 32}
    return Case("dungeon-escape", ("DungeonEscape",), settings, interval=1000, lanista_only=trainer != "poca")


SELF_PLAY = {"save_steps": 500, "team_change": 1000, "swap_steps": 200, "window": 5}
CASES = {
    "ppo": Case(),
    "saves": Case(interval=1000, early=0.0, saves=True),
    "launches": Case(envs=6, early=0.75),
    "sac": off_policy("sac"),
    "td3": off_policy("td3"),
    "ddpg": off_policy("ddpg"),
    "dqn": off_policy("dqn", scene="basic", behaviors=("Basic",)),
    "poca": of_teams("poca"),
    "mappo": of_teams("mappo"),
    "coma": of_teams("coma"),
    "self-play": Case("tennis", ("Tennis",), {"self_play": SELF_PLAY}, interval=1000),
    "curriculum": Case(others={"environment_parameters": {"scale": {"curriculum": LESSONS}}}),
    "behaviors": Case("wall-jump", ("SmallWallJump", "BigWallJump"), interval=1000),
    "threaded": Case(settings={"threaded": True}, lanista_only=True),
    "ranks": Case(envs=2, learners=2, lanista_only=True),
}


class KilledRun:
    """One run in its folder, whatever process carries it on."""

    def __init__(self, folder: Path, case: Case, product: str, moments: random.Random) -> None:
        self.folder, self.case, self.product, self.moments = folder, case, product, moments
        (folder / "run.yaml").write_text(programs.configuration(product, case.configuration()))
        self.log = folder / "log.txt"
        self.latest = [folder / "results" / "r" / name / "checkpoint.pt" for name in case.behaviors]
        self.start_seconds = 0.0
        """From a process's start to its first summary, of the first one."""
        self.trained: dict[str, int] = {}
        """By behavior, the last step that was printed."""
        self.waiting = self.kills = self.held = self.lost = self.orphans = 0
        """Kills: those of which it is not known yet whether the run resumes, and all, and those that held."""
        self.stuck = 0
        """Kills of a learner after which another one did not end; these do not count as held."""
        self.failures: list[str] = []

    def said(self) -> str:
        """What the process printed so far."""
        return self.log.read_text(errors="replace")

    def steps(self) -> dict[str, int]:
        """The last step of each behavior that the process printed."""
        return {name: int(step) for name, step in STEP.findall(self.said())}

    def carry_on(self, last: bool = False) -> None:
        """Start or resume the run, judge the kills before, and kill it; the `last` time at once."""
        saved = any(path.exists() for path in self.latest)
        arguments = ["--run-id", "r", "--seed", "1"]
        arguments += programs.environment(self.product, self.case.scene, self.folder, self.case.envs)
        arguments += ["--resume" if saved else "--force"]
        arguments += ["--learners", str(self.case.learners)] if self.case.learners > 1 else []
        begin = time.monotonic()
        early = not last and self.start_seconds and self.moments.random() < self.case.early
        with self.log.open("w") as log:
            run = subprocess.Popen(
                [*programs.command(self.product), "run.yaml", *arguments],
                cwd=self.folder, stdout=log, stderr=log, env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip
            try:
                if early:
                    time.sleep(self.moments.uniform(0, self.start_seconds))
                    self.judge(run)
                elif until(lambda: bool(self.steps()) or run.poll() is not None):
                    self.start_seconds = self.start_seconds or time.monotonic() - begin
                    self.judge(run)
                    if not last:
                        self.wait_for_the_moment(run)
                else:
                    raise AssertionError(f"no step within {PATIENCE:g} s: {self.said()}")
                if not last and self.case.learners > 1:
                    self.kill_any_rank(run)
            finally:
                run.kill()
                run.wait()
        for name, step in self.steps().items():
            self.trained[name] = max(step, self.trained.get(name, 0))
        if not last:
            self.kills += 1
            self.waiting += 1
        self.orphans += programs.end_left_behind(self.folder, ORPHAN_SECONDS)

    def wait_for_the_moment(self, run: subprocess.Popen[bytes]) -> None:
        """Return at a random one, or in a save."""
        if self.case.saves:
            before = [_stamp(path) for path in self.latest]
            limit = time.monotonic() + PATIENCE
            while [_stamp(path) for path in self.latest] == before and run.poll() is None:
                assert time.monotonic() < limit, "no checkpoint came"
            time.sleep(self.moments.choice((0, 0, 0.002, 0.005)))
        else:
            enough = sum(self.steps().values()) + self.moments.uniform(0, 2 * self.case.interval)
            until(lambda: sum(self.steps().values()) >= enough or run.poll() is not None)
            time.sleep(self.moments.uniform(0, 0.2))

    def kill_any_rank(self, run: subprocess.Popen[bytes]) -> None:
        """Kill one of the learners; where it is not the first one, that has to notice it, and to end."""
        children = psutil.Process(run.pid).children(recursive=True)
        further = [child for child in children if RANKS in " ".join(child.cmdline())]
        victim = self.moments.choice([None, *further])
        if victim is not None:
            victim.kill()
            try:
                run.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.stuck += 1
                self.failures.append(f"a learner was killed, and the first one lived on for {PATIENCE:g} s")

    def judge(self, run: subprocess.Popen[bytes]) -> None:
        """Whether the kills before were survived, as far as this process shows it."""
        if run.poll() is not None:
            assert self.waiting, f"it did not start: {self.said()}"
            lines = self.said().strip().splitlines()
            self.failures.append(lines[-1] if lines else f"status {run.returncode}")
            self.held += max(self.waiting - 1, 0)
            self.waiting, self.trained = 0, {}
            for path in self.latest:
                path.unlink(missing_ok=True)  # the next process begins anew
            return
        resumed = sum(map(int, RESUMED.findall(self.said())))
        if not self.waiting or not (resumed or self.steps()):
            return  # it was killed before it said so: a later one will
        lost = sum(self.trained.values()) - resumed
        self.lost = max(self.lost, lost)
        allowed = len(self.latest) * (self.case.interval + 2 * SUMMARY)
        if lost > allowed:
            self.failures.append(f"{lost} steps lost")
        self.held += self.waiting - (lost > allowed)
        self.waiting, self.trained = 0, {}


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def measure(name: str, product: str, kills: int, seed: int) -> KilledRun:
    """So many kills of a run, and a last process that shows what came of the last one."""
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        run = KilledRun(Path(folder).resolve(), CASES[name], product, random.Random(f"{name} {seed}"))
        try:
            for _ in range(kills):
                run.carry_on()
            run.carry_on(last=True)
        finally:
            programs.end_left_behind(run.folder, 0.0)
        files = [path for path in run.latest if path.exists()]
        assert product != LANISTA or not files or weights_are_finite(files)
    return run


def main() -> int:
    """Run as the module says."""
    options = parse_options(
        __doc__,
        kills=20,
        cases={"default": list(CASES), "choices": list(CASES)},
        products=programs.OPTION,
        seed={"default": 0, "help": "of the moments"},
        record={"default": False, "help": "keep the figures"},
    )
    recorder, bad = Recorder(1, options.record), 0
    for name in options.cases:
        for product in options.products:
            if CASES[name].lanista_only and product != LANISTA:
                continue
            run = measure(name, product, options.kills, options.seed)
            found = f"{run.orphans} processes outlived a kill by {ORPHAN_SECONDS:g} s"
            found += "".join(f"; {text[:150]}" for text in dict.fromkeys(run.failures))
            held = run.held - run.stuck
            recorder.add(name, product, run.kills, held, worst=run.lost, unit="steps lost", found=found)
            bad += product == LANISTA and (run.held < run.kills or run.orphans > 0 or run.stuck > 0)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
