"""Lanista's PPO beside that of other trainers, in the same Gymnasium environments: one command, one page.

    LANISTA_SB3=path/to/python LANISTA_SAMPLE_FACTORY=path/to/python LANISTA_CLEANRL=path/to/checkout \\
        python tests/benchmarks/field.py [--tasks cartpole catch] [--trainers ...] [--rounds 3] [--again]

The trainers take turns, round by round, with the round's number as the seed. None of them is asked how fast
it was or what it learned: the environments write that down (tests/peer/field_environments.py). A trainer of
which a variable is not set is left out. Each run is kept at once in docs/results/field.csv; what that holds
with today's settings is not run again without `--again`. Writes docs/results/field.md too.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from field_runs import WINDOW, Found, run
from field_trainers import PEER, TRAINERS, Plan, Trainer
from products import CommandFailedError
from records import fingerprint
from results import (
    LANISTA,
    RESULTS,
    commit,
    conditions,
    machine,
    ratios,
    read,
    table,
    write,
    write_page,
)
from script_options import parse_options


@dataclass(frozen=True)
class Task:
    """An environment, and the mean return that is wanted of it."""

    plan: Plan
    threshold: float
    title: str


TASKS = {
    "cartpole": Task(Plan("RecordedCartPole-v1", False, 200_000, 1e-3), 475.0, "CartPole-v1"),
    "catch": Task(Plan("Catch-v0", True, 40_000, 5e-4, gamma=0.9), 14.4, "Catch, in pictures of 64 x 64"),
}


@dataclass(frozen=True)
class Named:
    """What tells one run from the others."""

    task: str
    trainer: str
    round: int
    settings: str
    """The fingerprint of the plan."""


@dataclass(frozen=True)
class Run(Found, Named):
    """A line of field.csv."""

    version: str = ""
    """Of the trainer."""
    machine: str = field(default_factory=machine)
    commit: str = field(default_factory=commit)
    """Of Lanista."""

    @property
    def key(self) -> tuple[str, str, int, str]:
        return self.task, self.trainer, self.round, self.settings


class Field:
    """The tasks with the runs that the CSV holds."""

    def __init__(self, out: Path, steps: int) -> None:
        self.out = out
        self.tasks = {
            name: replace(task, plan=replace(task.plan, max_steps=steps or task.plan.max_steps))
            for name, task in TASKS.items()
        }
        self.settings = {name: fingerprint(asdict(task.plan)) for name, task in self.tasks.items()}
        self.runs = {line.key: line for line in read(out / "field.csv", Run)}
        self.failed: list[str] = []

    # Running ------------------------------------------------------------------------------------------

    def run(self, given: argparse.Namespace) -> None:
        """Make the runs that are missing; one that fails is told, and the others go on."""
        trainers = [name for name in TRAINERS if name in given.trainers and self._is_there(name)]
        for turn in range(1, given.rounds + 1):
            for name in given.tasks:
                for trainer in trainers[:: 1 if turn % 2 else -1]:
                    if given.again or (name, trainer, turn, self.settings[name]) not in self.runs:
                        self._run_one(name, trainer, turn)

    @staticmethod
    def _is_there(trainer: str) -> bool:
        if missing := TRAINERS[trainer].missing():
            print(f"{' and '.join(missing)} not set: {trainer} is left out.")
        return not missing

    def _run_one(self, name: str, trainer: str, turn: int) -> None:
        title = f"{name}, {trainer}, round {turn}"
        task, how = self.tasks[name], TRAINERS[trainer]
        try:
            found = measure(task, how, turn)
            named = Named(name, trainer, turn, self.settings[name])
            line = Run(**asdict(named), **asdict(found), version=how.version(task.plan))
        except (CommandFailedError, OSError) as error:
            self.failed.append(title)
            print(f"{title} FAILED: {error}", file=sys.stderr, flush=True)
            return
        self.runs[line.key] = line
        write(self.out / "field.csv", Run, self.runs.values(), digits=3)
        reached = (
            "threshold not reached"
            if math.isnan(line.threshold_s)
            else f"threshold in {line.threshold_s:.0f} s"
        )
        print(f"{title}: {line.steps_per_s:,.0f} steps/s, {reached}", flush=True)

    # The page -----------------------------------------------------------------------------------------

    def of(self, name: str, trainer: str) -> list[Run]:
        """The runs with today's settings, by round."""
        found = [line for line in self.runs.values() if (line.task, line.trainer) == (name, trainer)]
        return sorted((x for x in found if x.settings == self.settings[name]), key=lambda x: x.round)

    def current(self) -> list[Run]:
        """All runs with today's settings."""
        return [line for name in self.tasks for trainer in TRAINERS for line in self.of(name, trainer)]

    def section(self, name: str) -> str:
        """The table of a task."""
        heads = ["trainer", "steps/s:", "times Lanista's:", "seconds to threshold:", "steps to threshold:"]
        heads += ["reached:", "mean return at last:", "start, s:", "peak memory, MiB:"]
        own = self.of(name, LANISTA)
        lines = []
        for trainer in TRAINERS:
            if not (runs := self.of(name, trainer)):
                continue
            times = ratios(runs, own, "steps_per_s")
            reached = sum(not math.isnan(line.threshold_s) for line in runs)
            cells = [trainer, f"{median(runs, 'steps_per_s'):,.0f}"]
            cells.append(f"{statistics.median(times):.2f}" if times else "")
            for column in ("threshold_s", "threshold_steps"):
                middle = median(runs, column)
                cells.append("not reached" if math.isinf(middle) else f"{middle:,.0f}")
            cells += [f"{reached} of {len(runs)}", f"{median(runs, 'last_mean'):.1f}"]
            lines.append([*cells, f"{median(runs, 'start_s'):.1f}", f"{median(runs, 'peak_mib'):,.0f}"])
        return table(heads, lines) if lines else "Not measured yet."

    def versions(self) -> str:
        """What was measured."""
        found = {name: sorted({x.version for x in self.current() if x.trainer == name}) for name in TRAINERS}
        lines = [[name, "; ".join(versions)] for name, versions in found.items() if versions]
        return table(["trainer", "version"], lines) if lines else "Not measured yet."

    def write_page(self) -> str:
        """docs/results/field.md."""
        plans = {name: task.plan for name, task in self.tasks.items()}
        shared, runs = plans["cartpole"], self.current()
        return write_page(
            "field",
            self.out,
            conditions=f"Rounds: {max((run.round for run in runs), default=0)}. {conditions(runs)}",
            versions=self.versions(),
            shared=shared,
            rollout=f"{shared.copies * shared.horizon:,}",
            window=WINDOW,
            **{name: self.section(name) for name in self.tasks},
            **{f"{name}_task": task for name, task in self.tasks.items()},
        )


def measure(task: Task, trainer: Trainer, seed: int) -> Found:
    """Train once, in a folder that is then gone."""
    with TemporaryDirectory() as folder:
        command = trainer.command(replace(task.plan, seed=seed), Path(folder))
        return run(command, Path(folder), PEER, task.threshold)


def median(runs: list[Run], column: str) -> float:
    """Of a column; a threshold that was not reached counts as later than any."""
    return statistics.median(math.inf if math.isnan(x) else x for x in (getattr(r, column) for r in runs))


def main() -> None:
    """Run as the module says."""
    given = parse_options(
        __doc__,
        tasks={"default": list(TASKS), "choices": list(TASKS)},
        trainers={"default": list(TRAINERS), "choices": list(TRAINERS)},
        rounds={"default": 3, "help": "runs of each trainer; 0: only the page"},
        steps={"default": 0, "help": "of each run, to try it out; 0: as many as the tasks have"},
        again={"default": False, "help": "measure also what the CSV holds"},
        out={"default": RESULTS, "type": Path},
    )
    compared = Field(given.out, given.steps)
    compared.run(given)
    print(compared.write_page())
    if compared.failed:
        sys.exit(f"{len(compared.failed)} runs failed: {'; '.join(compared.failed)}")


if __name__ == "__main__":
    main()
