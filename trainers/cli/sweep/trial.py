"""One trial of a sweep: the runs of its seeds, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....envs.registry.process_lock import LockingNotSupportedError, ProcessLock
from ...settings.errors import TrainerConfigError
from .launcher import PROGRAM, Commands, RunProcess, Values
from .metric import LOGS, Metric

if TYPE_CHECKING:
    from optuna import Trial

DONE_SEEDS = "values"
"""The attribute of a trial that keeps what the seeds that are done were worth."""
ERROR = "error"
"""The one that says why it failed."""
LEAVING = 30.0
"""Seconds that a run may still hold its folder after the sweep that started it was killed."""


class End(Enum):
    """How a trial ended."""

    DONE = "done"
    PRUNED = "pruned"
    FAILED = "failed"
    STOPPED = "stopped"
    """By the user: it goes on when the sweep does."""


@dataclass(frozen=True)
class TrialPlan:
    """What all trials of a sweep have in common."""

    commands: Commands
    metric: Metric
    seeds: Sequence[int]
    steps: Callable[[Values], int]
    """The trainer steps of a run of these values."""
    program: Sequence[str] = PROGRAM

    def run_ids(self, number: int) -> list[str]:
        """The run of each seed, by its folder below the sweep's."""
        name = f"trial-{number:03}"
        return [name] if len(self.seeds) == 1 else [f"{name}/seed-{seed}" for seed in self.seeds]


class RunningTrial:
    """A trial that is under way; `poll` carries it on.

    The pruner is told, at every summary, the mean of the seeds that are done and of the one that runs, at a
    step that counts through all of them.

    Args:
        trial: Optuna's.
        values: of its parameters.
        plan: of the sweep.
        reported: the last step of which the pruner has been told, by a sweep that was killed.
    """

    def __init__(self, trial: Trial, values: dict[str, Any], plan: TrialPlan, reported: int | None) -> None:
        self.trial = trial
        self.values = values
        self.error = ""
        self.done: list[float] = list(trial.user_attrs.get(DONE_SEEDS, ()))
        """What the seeds that are done were worth."""
        self._plan = plan
        self._run_ids = plan.run_ids(trial.number)
        self._steps = 0
        self._reported = -1 if reported is None else reported
        self._run: RunProcess | None = None
        self._end: End | None = None
        """What it will be once its run has ended, where that is known before."""
        self._patience = time.monotonic() + LEAVING
        try:
            self._steps = plan.steps(values)
        except TrainerConfigError as error:  # of values that each alone are right
            self._fail(" ".join(str(error).split()))

    @property
    def value(self) -> float:
        """The mean of the seeds that are done; NaN before."""
        return sum(self.done) / len(self.done) if self.done else float("nan")

    @property
    def step(self) -> int:
        """The last step of which the pruner was told."""
        return max(self._reported, 0)

    def poll(self) -> End | None:
        """Begin the next run, or look after the one under way; how the trial has ended, if so."""
        if self._run is None:
            return self._end or self._begin()
        status = self._run.poll()
        curve = self._plan.metric.curve(self._folder)
        if self._report(curve) and status is None:
            self._end = End.PRUNED
            self._run.ask_to_end()
        return None if status is None else self._close(self._run, status, curve)

    def stop(self) -> None:
        """Let its run end in good order; it goes on another time."""
        self._end = self._end or End.STOPPED
        if self._run is not None:
            self._run.ask_to_end()

    def await_end(self) -> None:
        """Wait until the run that was asked to end has done so."""
        while self._run is not None and self._run.poll() is None:
            time.sleep(0.05)

    def kill(self) -> None:
        """End its run at once."""
        if self._run is not None:
            self._run.kill()

    @property
    def _folder(self) -> Path:
        return self._plan.commands.folder / self._run_ids[len(self.done)]

    def _begin(self) -> End | None:
        seed = len(self.done)
        if seed == len(self._run_ids):  # killed when all was known
            return End.DONE
        resume = self._folder.is_dir()
        if resume and not _free(self._folder) and time.monotonic() < self._patience:
            return None
        arguments = self._plan.commands.arguments(
            self.values, self._run_ids[seed], self._plan.seeds[seed], resume=resume
        )
        log = self._plan.commands.folder / LOGS / f"{self._run_ids[seed].replace('/', '-')}.log"
        self._run = RunProcess(arguments, log, self._plan.program)
        return None

    def _report(self, curve: Mapping[int, float]) -> bool:
        """Tell the pruner what is new; whether it wants the trial to end."""
        before = len(self.done) * self._steps
        for step, value in curve.items():
            if self._end is not None or before + step <= self._reported:
                continue
            self._reported = before + step
            self.trial.report((sum(self.done) + value) / (len(self.done) + 1), self._reported)
            if self.trial.should_prune():
                return True
        return False

    def _close(self, run: RunProcess, status: int, curve: Mapping[int, float]) -> End | None:
        self._run = None
        if self._end is not None:
            return self._end
        if status != 0 or not curve:
            return self._fail(run.complaint() if status != 0 else self._plan.metric.absence(self._folder))
        self.done.append(list(curve.values())[-1])
        self.trial.set_user_attr(DONE_SEEDS, self.done)
        return End.DONE if len(self.done) == len(self._run_ids) else None

    def _fail(self, error: str) -> End:
        self.error = error
        self.trial.set_user_attr(ERROR, error)
        self._end = End.FAILED
        return self._end


def _free(folder: Path) -> bool:
    """Whether no process is at work in the run's folder."""
    lock = ProcessLock(folder.with_name(f".{folder.name}.lock"))
    try:
        taken = lock.acquire()
    except (LockingNotSupportedError, OSError):
        return True
    lock.release()
    return taken
