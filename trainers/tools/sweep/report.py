"""The results of a sweep: a table, a CSV file, the best settings and a plot."""

from __future__ import annotations

import csv
import io
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import yaml

from ...utils.atomic_files import atomic_write, atomic_write_text
from .commands import Commands, as_text
from .metric import BEST_NAME, CSV_NAME, PICTURE_NAME
from .space import Dimension, short_names, shown, values_of
from .trial import TrialPlan, TrialSummary

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial
    from rich.table import Table

    from .study import SweepStudy

_MAX_ROWS = 40
"""Rows of the table in a terminal."""


class SweepReport:
    """The reports of a sweep, rewritten after every trial."""

    def __init__(self, study: SweepStudy, plan: TrialPlan, space: list[Dimension], name: str) -> None:
        self.space = space
        self.names = short_names([one.key for one in space])
        self._study, self._plan, self._name = study, plan, name
        self._folder = plan.commands.folder
        self.plots = find_spec("matplotlib") is not None
        """Whether plots are written."""

    def rows(self) -> list[TrialSummary]:
        """All trials, in the order in which they started."""
        return [TrialSummary.of(trial, self.space) for trial in self._study.trials()]

    def ranked(self) -> list[TrialSummary]:
        """Completed trials, the best first; then pruned, unfinished and failed ones."""
        order = ("done", "pruned", "unfinished", "failed")
        sign = -1.0 if self._study.maximize else 1.0

        def rank(row: TrialSummary) -> tuple[int, float, int]:
            return order.index(row.outcome), sign * (row.value or 0.0), row.number

        return sorted(self.rows(), key=rank)

    def write(self) -> None:
        """Write the CSV file, the plot and, once a trial is complete, the best settings.

        Raises:
            OSError: one of them cannot be written.
        """
        atomic_write_text(self._folder / CSV_NAME, self._csv())
        rows = self.rows()
        if self.plots and any(row.value is not None for row in rows):
            self._plot(rows)
        best = self._study.best()
        if best is not None:
            atomic_write_text(self._folder / BEST_NAME, self._best(best, self._plan.commands))

    def _plot(self, rows: list[TrialSummary]) -> None:
        from .plot import plot_sweep

        metric, maximize = self._plan.metric.tag, self._study.maximize
        figure = plot_sweep(rows, self.space, self.names, metric, maximize=maximize, title=self._name)
        atomic_write(self._folder / PICTURE_NAME, lambda file: figure.savefig(file, format="png"))

    def table(self) -> Table:
        """The ranking, for a terminal."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        title = f"{self._name}: {self._plan.metric.tag}"
        table = Table(title=title, title_justify="left", title_style="", box=SIMPLE_HEAD, pad_edge=False)
        for column in ("trial", "value", *self.names.values(), "steps", "s"):
            table.add_column(column, justify="right", overflow="fold")
        table.add_column("outcome", overflow="fold")
        ranked = self.ranked()
        for place, row in enumerate(ranked[:_MAX_ROWS]):
            cells = [shown(row.values[key]) if key in row.values else "" for key in self.names]
            value = "" if row.value is None else shown(row.value)
            step = "" if row.step is None else str(row.step)
            seconds = "" if row.seconds is None else f"{row.seconds:.0f}"
            outcome = f"failed: {row.error}" if row.error and row.outcome == "failed" else row.outcome
            style = "bold" if place == 0 and row.outcome == "done" else None
            table.add_row(str(row.number), value, *cells, step, seconds, outcome, style=style)
        if len(ranked) > _MAX_ROWS:
            table.caption = f"and {len(ranked) - _MAX_ROWS} more in {self._folder / CSV_NAME}"
        return table

    def _csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["trial", "outcome", "value", "step", "seconds", *self.names, "folder", "error"])
        for row in self.rows():
            values = ["" if key not in row.values else _cell(row.values[key]) for key in self.names]
            seconds = None if row.seconds is None else round(row.seconds, 1)
            writer.writerow(
                [row.number, row.outcome, row.value, row.step, seconds, *values, row.folder, row.error]
            )
        return text.getvalue()

    def _best(self, best: FrozenTrial, commands: Commands) -> str:
        """The configuration of the best trial, for lanista-learn."""
        configuration = commands.best(values_of(self.space, best.params))
        lines = [f"The best of the sweep {self._name}: trial {best.number}, {shown(best.value)}."]
        lines += [f"lanista-learn {self._folder / BEST_NAME} --run-id NAME trains with it."]
        return "".join(f"# {line}\n" for line in lines) + yaml.safe_dump(configuration, sort_keys=False)


def _cell(value: Any) -> Any:
    return value if isinstance(value, (int, float, str)) and not isinstance(value, bool) else as_text(value)
