"""The trials of a sweep, kept in its folder by Optuna, so that it can be killed and resumed at any time."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
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
from .space import Dimension, grid, shown
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
