"""Runs the trials of a sweep, several in parallel, until all are done or the user stops it."""

from __future__ import annotations

import time
from collections.abc import Callable

from .metric import SweepError
from .space import short_names, shown
from .study import SweepStudy
from .trial import RunningTrial, TrialOutcome, TrialPlan

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
