"""The trials of a sweep, kept in its folder by Optuna, so that it can be killed and resumed at any time."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from ...settings.options import RunOptions
from .metric import STUDY, SweepError
from .settings import SweepSettings
from .space import Dimension, grid, short_names, shown
from .trial import RunLengths, RunningTrial, TrialOutcome, TrialPlan

DEFAULT_TRIALS = 20
_RECORD = "sweep"
"""The attribute of the study that holds everything on which its values depend."""
_RETRY = "retry_of"
"""The attribute of a trial that names the failed trial which it repeats."""
_FREE = ("trials", "parallel", "name", "results_dir", "config", "preset", "env", "flags", "set")
"""Settings that may change between two starts, or that are compared as part of the configuration."""
_STATES = {
    TrialOutcome.DONE: TrialState.COMPLETE,
    TrialOutcome.PRUNED: TrialState.PRUNED,
    TrialOutcome.FAILED: TrialState.FAIL,
}


class SweepStudy:
    """The trials of a sweep.

    Args:
        settings: of the sweep.
        folder: of the sweep; created if missing.
        space: its parameters.
        base: the configuration without them.
        lengths: of its runs.

    Raises:
        SweepError: the folder holds another sweep, or its database cannot be used.
        OSError: the folder cannot be created.
    """

    def __init__(
        self,
        settings: SweepSettings,
        folder: Path,
        space: Sequence[Dimension],
        base: RunOptions,
        lengths: RunLengths,
    ) -> None:
        self.space = space
        self.maximize = settings.direction == "maximize"
        self._grid = grid(space) if settings.sampler == "grid" else None
        self._settings, self._folder = settings, folder
        with self.storage_errors():
            self._open(lengths)
            self._require_same(_record(settings, base))
            self._resume()

    @property
    def total(self) -> int:
        """How many trials the sweep consists of."""
        wanted = self._settings.trials
        if self._grid is None:
            return wanted or DEFAULT_TRIALS
        return min(wanted or len(self._grid), len(self._grid))

    def trials(self) -> list[FrozenTrial]:
        """All started trials, except failed ones that were retried."""
        with self.storage_errors():
            every = self._study.get_trials(deepcopy=False)
        retried = {trial.user_attrs.get(_RETRY) for trial in every}
        return [one for one in every if one.state is not TrialState.WAITING and one.number not in retried]

    def next(self, plan: TrialPlan) -> RunningTrial | None:
        """The next trial; None once all have started."""
        with self.storage_errors():
            if not self._study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
                started = self.trials()
                if len(started) >= self.total:
                    return None
                self._enqueue_grid_point([one.params for one in started])
            trial = self._study.ask({one.key: one.distribution() for one in self.space})
            known = self._study.get_trials(deepcopy=False)[trial.number].last_step
            values = {one.key: one.value(trial.params[one.key]) for one in self.space}
            return RunningTrial(trial, values, plan, known)

    def record(self, one: RunningTrial, outcome: TrialOutcome) -> None:
        """Store the outcome of a trial; that of a stopped one is still open."""
        if outcome not in _STATES:
            return
        value = one.value if outcome is TrialOutcome.DONE else None
        with self.storage_errors():
            self._study.tell(one.trial, value, state=_STATES[outcome])

    def best(self) -> FrozenTrial | None:
        """The best completed trial; None while there is none."""
        done = [one for one in self.trials() if one.state is TrialState.COMPLETE and one.value is not None]
        sign = -1.0 if self.maximize else 1.0
        return min(done, key=lambda one: sign * (one.value or 0.0), default=None)

    def _open(self, lengths: RunLengths) -> None:
        from sqlalchemy import URL

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._folder.mkdir(parents=True, exist_ok=True)
        url = URL.create("sqlite", database=str((self._folder / STUDY).absolute()))
        self._storage = optuna.storages.RDBStorage(url.render_as_string())
        self._study = optuna.create_study(
            storage=self._storage,
            study_name="sweep",
            direction=self._settings.direction,
            pruner=_pruner(self._settings, lengths),
            load_if_exists=True,
        )
        # A resumed sampler with the same seed would repeat its samples.
        seed = self._settings.seed + len(self._study.get_trials(deepcopy=False))
        self._study.sampler = _sampler(self._settings, seed)

    def _require_same(self, record: dict[str, Any]) -> None:
        known = self._study.user_attrs.get(_RECORD)
        if known is None:
            self._study.set_user_attr(_RECORD, record)
            return
        changes = list(_changes(known, json.loads(json.dumps(record))))
        if changes:
            more = f" (and {len(changes) - 3} more)" if len(changes) > 3 else ""
            raise SweepError(
                f"{self._folder} holds a sweep with other settings: {'; '.join(changes[:3])}{more}. Its "
                "values would not be comparable with new ones: choose another --name, undo the change, or "
                "start over with --force (which sets the old folder aside without deleting it)."
            )

    def _resume(self) -> None:
        """Enqueue unfinished trials, and failed ones for a second attempt."""
        every = self._study.get_trials(deepcopy=False)
        for one in every:
            if one.state is TrialState.RUNNING:
                self._storage.set_trial_state_values(one._trial_id, TrialState.WAITING)
        for one in self.trials():
            if one.state is TrialState.FAIL:
                self._study.enqueue_trial(one.params, user_attrs={_RETRY: one.number})

    def _enqueue_grid_point(self, started: Sequence[Mapping[str, Any]]) -> None:
        """Enqueue the first point of the grid that no trial has started."""
        point = next((one for one in self._grid or () if one not in started), None)
        if point is not None:
            self._study.enqueue_trial(point)

    @contextmanager
    def storage_errors(self) -> Iterator[None]:
        """Explain errors of the storage in one line, and silence Optuna's warnings, in this context.

        Raises:
            SweepError: the storage cannot be read or written.
        """
        from optuna.exceptions import StorageInternalError
        from sqlalchemy.exc import SQLAlchemyError

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        except (StorageInternalError, SQLAlchemyError) as error:
            cause = str(error.__cause__ or error).strip().splitlines()[0]
            raise SweepError(
                f"{self._folder / STUDY} cannot be used: {cause}. Check its disk and permissions; if the "
                "file is damaged, --force sets it aside together with its sweep."
            ) from error


def _sampler(settings: SweepSettings, seed: int) -> BaseSampler:
    if settings.sampler == "tpe":
        # Running trials count as bad ones, so that parallel trials do not sample the same point.
        return TPESampler(seed=seed, constant_liar=settings.parallel > 1)
    return RandomSampler(seed=seed)


def _pruner(settings: SweepSettings, lengths: RunLengths) -> BasePruner:
    chosen = settings.pruner
    if chosen.type == "median":
        warmup = lengths.run_steps // 5 if chosen.warmup_steps is None else chosen.warmup_steps
        return MedianPruner(n_startup_trials=chosen.startup_trials, n_warmup_steps=warmup)
    if chosen.type == "hyperband":
        least = min(lengths.summary_freq, lengths.steps)
        return HyperbandPruner(least, lengths.steps, reduction_factor=chosen.reduction_factor)
    return NopPruner()


def _record(settings: SweepSettings, base: RunOptions) -> dict[str, Any]:
    """Everything on which the values of the trials depend."""
    record = {key: value for key, value in settings.as_dict().items() if key not in _FREE}
    record["parameters"] = {
        key: one.model_dump(exclude_unset=True) for key, one in settings.parameters.items()
    }
    record["configuration"] = {k: v for k, v in base.as_dict().items() if k != "checkpoint_settings"}
    return record


def _changes(old: Any, new: Any, path: str = "") -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*old, *new)):
            yield from _changes(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
    elif old != new:
        yield f"{path} was {shown(old)} and is {shown(new)}"


POLL_INTERVAL = 0.5
"""Seconds between two checks of the runs."""
MAX_FAILURES = 3
"""This many failures in a row, without any success, end the sweep."""


class TrialScheduler:
    """Runs a sweep's trials.

    Args:
        study: keeps the trials.
        plan: of the trials.
        parallel: how many run at once.
        log: prints a line for the user.
        on_change: called at the start, and after every trial.
    """

    def __init__(
        self,
        study: SweepStudy,
        plan: TrialPlan,
        parallel: int,
        log: Callable[[str], None],
        on_change: Callable[[], None],
    ) -> None:
        self.stopping = False
        self._study, self._plan, self._parallel = study, plan, parallel
        self._log, self._on_change = log, on_change
        self._running: list[RunningTrial] = []
        self._names = short_names([one.key for one in study.space])
        self._failures = 0
        self._failure = ""
        """Why no more trials are started."""

    def stop(self) -> None:
        """Let the runs save and exit, and start no more. Safe in signal handlers: it sets a flag."""
        self.stopping = True

    def run(self) -> None:
        """Run until all trials are done, or `stop` was called.

        Raises:
            SweepError: every trial fails, or the study cannot be stored.
            OSError: a run cannot be started or read.
        """
        self._on_change()
        try:
            while self._fill() or self._running:
                if self.stopping or self._failure:
                    for one in self._running:
                        one.stop()
                self._poll()
                if self._running:
                    time.sleep(POLL_INTERVAL)
        except (SweepError, OSError) as error:  # the runs need not lose their progress
            self._wait_for_runs(error)
            raise
        finally:
            for one in self._running:
                one.kill()
        if self._failure:
            raise SweepError(self._failure)

    def _fill(self) -> bool:
        """Start trials while there is capacity; returns whether any was started."""
        started = False
        while not (self.stopping or self._failure) and len(self._running) < self._parallel:
            one = self._study.next(self._plan)
            if one is None:
                break
            self._running.append(one)
            started = True
            values = ", ".join(f"{self._names[key]} {shown(value)}" for key, value in one.values.items())
            self._log(f"trial {one.trial.number}: {values}")
        return started

    def _wait_for_runs(self, error: Exception) -> None:
        """Let all runs save and exit, since the sweep cannot continue."""
        for one in self._running:
            one.stop()
        if self._running:
            self._log(f"The sweep cannot continue ({error}). The current runs save and exit.")
        for one in self._running:
            one.wait()

    def _poll(self) -> None:
        for one in list(self._running):
            with self._study.storage_errors():
                outcome = one.poll()
            if outcome is not None:
                self._finish(one, outcome)

    def _finish(self, one: RunningTrial, outcome: TrialOutcome) -> None:
        self._running.remove(one)
        self._study.record(one, outcome)
        name = f"trial {one.trial.number}"
        if outcome is TrialOutcome.DONE:
            self._log(f"{name} reached {self._compared(one)}")
        elif outcome is TrialOutcome.PRUNED:
            self._log(f"{name} was pruned at step {one.step}: others were better by then")
        elif outcome is TrialOutcome.FAILED:
            self._log(f"{name} failed: {one.error}")
        else:
            self._log(f"{name} was stopped; it continues when the sweep does")
        self._on_change()
        self._failures = self._failures + 1 if outcome is TrialOutcome.FAILED else 0
        if self._failures >= MAX_FAILURES and self._study.best() is None:
            self._failure = (
                f"{self._failures} trials in a row failed and none succeeded; the last error: {one.error}"
            )

    def _compared(self, one: RunningTrial) -> str:
        best, value = self._study.best(), shown(one.value)
        if best is None or best.number == one.trial.number:
            return f"{value}, the best so far"
        return f"{value}; the best so far is trial {best.number} with {shown(best.value)}"
