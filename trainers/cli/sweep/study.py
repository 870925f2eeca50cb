"""What a sweep has tried, kept in its folder by Optuna, so that it can be killed at any time."""

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
from .sweep import Lengths
from .trial import End, RunningTrial, TrialPlan

USUAL_TRIALS = 20
_RECORD = "sweep"
"""The attribute of the study that keeps what decides about its values."""
_RETRY = "retry_of"
"""The attribute of a trial that tells which failed one it repeats."""
_FREE = ("trials", "parallel", "name", "results_dir", "config", "preset", "env", "flags", "set")
"""What may change between two starts, or is part of the configuration that is compared instead."""
_STATES = {End.DONE: TrialState.COMPLETE, End.PRUNED: TrialState.PRUNED, End.FAILED: TrialState.FAIL}


class SweepStudy:
    """The trials of a sweep.

    Args:
        settings: the sweep's.
        folder: the sweep's own; made.
        space: its parameters.
        base: the configuration without them.
        lengths: how long its runs are.

    Raises:
        SweepError: the folder holds another sweep, or what is in it cannot be used.
        OSError: the folder cannot be made.
    """

    def __init__(
        self,
        settings: SweepSettings,
        folder: Path,
        space: Sequence[Dimension],
        base: RunOptions,
        lengths: Lengths,
    ) -> None:
        self.space = space
        self.maximize = settings.direction == "maximize"
        self._grid = grid(space) if settings.sampler == "grid" else None
        self._settings, self._folder = settings, folder
        with self.guarded():
            self._open(lengths)
            self._require_same(_record(settings, base))
            self._go_on()

    @property
    def total(self) -> int:
        """How many trials there are to be."""
        wanted = self._settings.trials
        if self._grid is None:
            return wanted or USUAL_TRIALS
        return min(wanted or len(self._grid), len(self._grid))

    def trials(self) -> list[FrozenTrial]:
        """All trials that have begun, but for failed ones that were begun anew."""
        with self.guarded():
            every = self._study.get_trials(deepcopy=False)
        anew = {trial.user_attrs.get(_RETRY) for trial in every}
        return [one for one in every if one.state is not TrialState.WAITING and one.number not in anew]

    def next(self, plan: TrialPlan) -> RunningTrial | None:
        """The next trial; None when as many as wanted have begun."""
        with self.guarded():
            if not self._study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
                begun = self.trials()
                if len(begun) >= self.total:
                    return None
                self._wish_point([one.params for one in begun])
            trial = self._study.ask({one.key: one.distribution() for one in self.space})
            known = self._study.get_trials(deepcopy=False)[trial.number].last_step
            values = {one.key: one.value(trial.params[one.key]) for one in self.space}
            return RunningTrial(trial, values, plan, known)

    def tell(self, one: RunningTrial, end: End) -> None:
        """Keep how a trial has ended; of one that was stopped nothing, as it goes on another time."""
        if end not in _STATES:
            return
        value = one.value if end is End.DONE else None
        with self.guarded():
            self._study.tell(one.trial, value, state=_STATES[end])

    def best(self) -> FrozenTrial | None:
        """The best of the trials that are done."""
        done = [one for one in self.trials() if one.state is TrialState.COMPLETE and one.value is not None]
        sign = -1.0 if self.maximize else 1.0
        return min(done, key=lambda one: sign * (one.value or 0.0), default=None)

    def _open(self, lengths: Lengths) -> None:
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
        # A resumed sampler with the old seed would draw again what it has drawn.
        drawn = self._settings.seed + len(self._study.get_trials(deepcopy=False))
        self._study.sampler = _sampler(self._settings, drawn)

    def _require_same(self, record: dict[str, Any]) -> None:
        known = self._study.user_attrs.get(_RECORD)
        if known is None:
            self._study.set_user_attr(_RECORD, record)
            return
        changes = list(_changes(known, json.loads(json.dumps(record))))
        if changes:
            more = f" (and {len(changes) - 3} more)" if len(changes) > 3 else ""
            raise SweepError(
                f"{self._folder} holds a sweep that was told something else: {'; '.join(changes[:3])}{more}. "
                "Its values could not be compared with new ones: give this sweep another --name, take the "
                "change back, or give --force to begin anew (the old folder is then set aside, not deleted)."
            )

    def _go_on(self) -> None:
        """Let unfinished trials be carried on, and failed ones be tried once more."""
        every = self._study.get_trials(deepcopy=False)
        for one in every:
            if one.state is TrialState.RUNNING:
                self._storage.set_trial_state_values(one._trial_id, TrialState.WAITING)
        for one in self.trials():
            if one.state is TrialState.FAIL:
                self._study.enqueue_trial(one.params, user_attrs={_RETRY: one.number})

    def _wish_point(self, begun: Sequence[Mapping[str, Any]]) -> None:
        """Let the next trial be of the first point of the grid that no trial has begun."""
        point = next((one for one in self._grid or () if one not in begun), None)
        if point is not None:
            self._study.enqueue_trial(point)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """While open, what the storage cannot do is told in a line, and Optuna's remarks are not told.

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
                f"{self._folder / STUDY} cannot be used: {cause}. See to its disk and rights; a damaged "
                "file is set aside, with its sweep, by --force."
            ) from error


def _sampler(settings: SweepSettings, seed: int) -> BaseSampler:
    if settings.sampler == "tpe":
        # What others try at this moment counts as bad, so that two trials do not try the same.
        return TPESampler(seed=seed, constant_liar=settings.parallel > 1)
    return RandomSampler(seed=seed)


def _pruner(settings: SweepSettings, lengths: Lengths) -> BasePruner:
    told = settings.pruner
    if told.type == "median":
        warmup = lengths.run_steps // 5 if told.warmup_steps is None else told.warmup_steps
        return MedianPruner(n_startup_trials=told.startup_trials, n_warmup_steps=warmup)
    if told.type == "hyperband":
        least = min(lengths.summary_freq, lengths.steps)
        return HyperbandPruner(least, lengths.steps, reduction_factor=told.reduction_factor)
    return NopPruner()


def _record(settings: SweepSettings, base: RunOptions) -> dict[str, Any]:
    """All that decides about the values of the trials."""
    told = {key: value for key, value in settings.as_dict().items() if key not in _FREE}
    told["parameters"] = {key: one.model_dump(exclude_unset=True) for key, one in settings.parameters.items()}
    return {**told, "configuration": {k: v for k, v in base.as_dict().items() if k != "checkpoint_settings"}}


def _changes(old: Any, new: Any, path: str = "") -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*old, *new)):
            yield from _changes(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
    elif old != new:
        yield f"{path} was {shown(old)} and is {shown(new)}"
