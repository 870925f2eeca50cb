"""One trial of a sweep: a run per seed, one after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....envs.utils.process_lock import LockingNotSupportedError, ProcessLock, lock_beside
from ...settings.errors import TrainerConfigError
from ..run_process import PROGRAM, RunProcess
from .commands import Commands, Values
from .metric import LOGS, Metric
from .space import Dimension, values_of

if TYPE_CHECKING:
    from optuna import Trial
    from optuna.trial import FrozenTrial

DONE_SEEDS = "values"
"""The attribute of a trial that holds the values of its finished seeds."""
ERROR = "error"
"""The attribute that holds why a trial failed."""
RELEASE_TIMEOUT = 30.0
"""Seconds that a run may still lock its folder after the sweep that started it was killed."""
_OUTCOMES = {"COMPLETE": "done", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "unfinished"}


class TrialOutcome(Enum):
    """How a trial ended."""

    DONE = "done"
    PRUNED = "pruned"
    FAILED = "failed"
    STOPPED = "stopped"
    """The outcome of a trial that the user has stopped: it continues when the sweep does."""


@dataclass(frozen=True)
class RunLengths:
    """How long the runs of a sweep are, in trainer steps."""

    run_steps: int
    """The trainer steps of one run."""
    steps: int
    """The trainer steps of a trial, with all its seeds."""
    summary_freq: int
    """The trainer steps between two summaries."""


@dataclass(frozen=True)
class TrialPlan:
    """What all trials of a sweep have in common."""

    commands: Commands
    metric: Metric
    seeds: Sequence[int]
    steps: Callable[[Values], int]
    """The trainer steps of a run with these values."""
    program: Sequence[str] = PROGRAM

    def run_ids(self, number: int) -> list[str]:
        """The run ID of each seed: its folder below the sweep's."""
        name = f"trial-{number:03}"
        return [name] if len(self.seeds) == 1 else [f"{name}/seed-{seed}" for seed in self.seeds]


@dataclass(frozen=True)
class TrialSummary:
    """A trial as reports show it."""

    number: int
    outcome: str
    """How the trial ended: done, pruned, failed or unfinished."""
    value: float | None
    """The value of the trial; of a pruned one, the last that was reported."""
    step: int | None
    """The last reported step, counted across all seeds."""
    seconds: float | None
    values: dict[str, Any]
    folder: str
    error: str

    @classmethod
    def of(cls, trial: FrozenTrial, space: Sequence[Dimension]) -> TrialSummary:
        """The summary of a trial as Optuna keeps it."""
        return cls(
            trial.number,
            _OUTCOMES.get(trial.state.name, trial.state.name.lower()),
            trial.value,
            trial.last_step,
            trial.duration.total_seconds() if trial.duration is not None else None,
            values_of(space, trial.params),
            f"trial-{trial.number:03}",
            str(trial.user_attrs.get(ERROR, "")),
        )


class RunningTrial:
    """A trial in progress; call `poll` until it returns an outcome.

    At every summary, the mean of the finished seeds and the running one is reported to the pruner, at a step
    that counts across all seeds.

    Args:
        trial: Optuna's trial.
        values: the values of the trial's parameters.
        plan: the sweep's plan.
        reported: the last step that a killed sweep reported to the pruner; None if there is none.
    """

    def __init__(self, trial: Trial, values: dict[str, Any], plan: TrialPlan, reported: int | None) -> None:
        self.trial = trial
        self.values = values
        self.error = ""
        self.done: list[float] = list(trial.user_attrs.get(DONE_SEEDS, ()))
        """The values of the finished seeds."""
        self._plan = plan
        self._run_ids = plan.run_ids(trial.number)
        self._steps = 0
        self._reported = -1 if reported is None else reported
        self._run: RunProcess | None = None
        self._outcome: TrialOutcome | None = None
        """The outcome of the trial once its run has ended, if it is already decided."""
        self._release_deadline = time.monotonic() + RELEASE_TIMEOUT
        try:
            self._steps = plan.steps(values)
        except TrainerConfigError as error:  # a combination of values, each valid alone
            self._fail(" ".join(str(error).split()))

    @property
    def value(self) -> float:
        """The mean of the finished seeds; NaN while there are none."""
        return sum(self.done) / len(self.done) if self.done else float("nan")

    @property
    def step(self) -> int:
        """The last step reported to the pruner."""
        return max(self._reported, 0)

    def poll(self) -> TrialOutcome | None:
        """Start the next run or check the current one; return the outcome once the trial has ended."""
        if self._run is None:
            return self._outcome or self._start()
        status = self._run.poll()
        curve = self._plan.metric.curve(self._folder)
        if self._report(curve) and status is None:
            self._outcome = TrialOutcome.PRUNED
            self._run.terminate()
        return None if status is None else self._close(self._run, status, curve)

    def stop(self) -> None:
        """Let the trial's run save and exit; the trial can be resumed."""
        self._outcome = self._outcome or TrialOutcome.STOPPED
        if self._run is not None:
            self._run.terminate()

    def wait(self) -> None:
        """Wait for the exit of the run that was stopped."""
        while self._run is not None and self._run.poll() is None:
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill the trial's run."""
        if self._run is not None:
            self._run.kill()

    @property
    def _folder(self) -> Path:
        return self._plan.commands.folder / self._run_ids[len(self.done)]

    def _start(self) -> TrialOutcome | None:
        seed = len(self.done)
        if seed == len(self._run_ids):  # the sweep was killed after the last run
            return TrialOutcome.DONE
        resume = self._folder.is_dir()
        if resume and not _is_unlocked(self._folder) and time.monotonic() < self._release_deadline:
            return None
        arguments = self._plan.commands.arguments(
            self.values, self._run_ids[seed], self._plan.seeds[seed], resume=resume
        )
        log = self._plan.commands.folder / LOGS / f"{self._run_ids[seed].replace('/', '-')}.log"
        self._run = RunProcess(arguments, log, self._plan.program)
        return None

    def _report(self, curve: Mapping[int, float]) -> bool:
        """Report new values to the pruner; return whether it prunes the trial."""
        before = len(self.done) * self._steps
        for step, value in curve.items():
            if self._outcome is not None or before + step <= self._reported:
                continue
            self._reported = before + step
            self.trial.report((sum(self.done) + value) / (len(self.done) + 1), self._reported)
            if self.trial.should_prune():
                return True
        return False

    def _close(self, run: RunProcess, status: int, curve: Mapping[int, float]) -> TrialOutcome | None:
        self._run = None
        if self._outcome is not None:
            return self._outcome
        if status != 0 or not curve:
            return self._fail(
                run.error_message() if status != 0 else self._plan.metric.explain_missing(self._folder)
            )
        self.done.append(list(curve.values())[-1])
        self.trial.set_user_attr(DONE_SEEDS, self.done)
        return TrialOutcome.DONE if len(self.done) == len(self._run_ids) else None

    def _fail(self, error: str) -> TrialOutcome:
        self.error = error
        self.trial.set_user_attr(ERROR, error)
        self._outcome = TrialOutcome.FAILED
        return self._outcome


def _is_unlocked(folder: Path) -> bool:
    """Whether no process is using the run's folder."""
    lock = ProcessLock(lock_beside(folder))
    try:
        acquired = lock.acquire()
    except (LockingNotSupportedError, OSError):
        return True
    lock.release()
    return acquired
