"""Carries a sweep's trials on, several at once, until all are done or the user stops it."""

from __future__ import annotations

import time
from collections.abc import Callable

from .metric import SweepError
from .space import short_names, shown
from .study import SweepStudy
from .trial import End, RunningTrial, TrialPlan

POLL = 0.5
"""Seconds between two looks at the runs."""
HOPELESS = 3
"""So many failures in a row, and no success before, end the sweep."""


class SweepLoop:
    """The trials that are under way.

    Args:
        study: what was tried.
        plan: of the trials.
        parallel: how many at once.
        tell: takes a line for the user.
        changed: called at the beginning, and after every trial.
    """

    def __init__(
        self,
        study: SweepStudy,
        plan: TrialPlan,
        parallel: int,
        tell: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        self.stopping = False
        self._study, self._plan, self._parallel = study, plan, parallel
        self._tell, self._changed = tell, changed
        self._running: list[RunningTrial] = []
        self._names = short_names([one.key for one in study.space])
        self._failures = 0
        self._hopeless = ""
        """Why no more trials are begun."""

    def stop(self) -> None:
        """Ask for the end: runs save and end, no more are begun. For signal handlers: it sets a flag."""
        self.stopping = True

    def run(self) -> None:
        """Until as many trials as wanted are done, or `stop` was called.

        Raises:
            SweepError: every trial fails, or what was tried cannot be kept.
            OSError: a run cannot be started or read.
        """
        self._changed()
        try:
            while self._fill() or self._running:
                if self.stopping or self._hopeless:
                    for one in self._running:
                        one.stop()
                self._look_after()
                if self._running:
                    time.sleep(POLL)
        except (SweepError, OSError) as error:  # it need not cost the runs what they have learnt
            self._wait_for_runs(error)
            raise
        finally:
            for one in self._running:
                one.kill()
        if self._hopeless:
            raise SweepError(self._hopeless)

    def _fill(self) -> bool:
        """Begin trials while there is room; whether any was begun."""
        begun = False
        while not (self.stopping or self._hopeless) and len(self._running) < self._parallel:
            one = self._study.next(self._plan)
            if one is None:
                break
            self._running.append(one)
            begun = True
            told = ", ".join(f"{self._names[key]} {shown(value)}" for key, value in one.values.items())
            self._tell(f"trial {one.trial.number}: {told}")
        return begun

    def _wait_for_runs(self, error: Exception) -> None:
        """Let all runs save and end, as the sweep cannot go on."""
        for one in self._running:
            one.stop()
        if self._running:
            self._tell(f"The sweep cannot go on ({error}). The runs that are under way save and end.")
        for one in self._running:
            one.await_end()

    def _look_after(self) -> None:
        for one in list(self._running):
            with self._study.guarded():
                end = one.poll()
            if end is not None:
                self._ended(one, end)

    def _ended(self, one: RunningTrial, end: End) -> None:
        self._running.remove(one)
        self._study.tell(one, end)
        name = f"trial {one.trial.number}"
        if end is End.DONE:
            self._tell(f"{name} is worth {self._compared(one)}")
        elif end is End.PRUNED:
            self._tell(f"{name} was ended at step {one.step}: others did better by then")
        elif end is End.FAILED:
            self._tell(f"{name} failed: {one.error}")
        else:
            self._tell(f"{name} was stopped; it goes on when the sweep does")
        self._changed()
        self._failures = self._failures + 1 if end is End.FAILED else 0
        if self._failures >= HOPELESS and self._study.best() is None:
            self._hopeless = (
                f"{self._failures} trials in a row failed, and none succeeded; the last one: {one.error}"
            )

    def _compared(self, one: RunningTrial) -> str:
        best, value = self._study.best(), shown(one.value)
        if best is None or best.number == one.trial.number:
            return f"{value}, the best so far"
        return f"{value}; the best so far is trial {best.number} with {shown(best.value)}"
