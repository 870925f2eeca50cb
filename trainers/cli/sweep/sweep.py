"""A sweep from its settings to its trials: checked as a whole, then opened in its folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ...checkpoints.run_folder import set_aside
from ...settings.models.behavior import TrainerSettings
from ...settings.options import RunOptions
from .launcher import PROGRAM, Commands, Values, base_options
from .metric import STUDY, Metric, SweepError
from .settings import SweepSettings
from .space import Dimension
from .trial import TrialPlan
from .validation import check_trials, make_space

if TYPE_CHECKING:
    from .report import Report
    from .scheduler import SweepLoop


@dataclass(frozen=True)
class Lengths:
    """How long the runs of a sweep are."""

    run_steps: int
    """Trainer steps of one run."""
    steps: int
    """Those of a trial with all its seeds."""
    summary_freq: int
    """Trainer steps between two summaries."""


@dataclass(frozen=True)
class Sweep:
    """A sweep that can be run."""

    settings: SweepSettings
    folder: Path
    commands: Commands
    space: list[Dimension]

    @classmethod
    def checked(cls, settings: SweepSettings, folder: Path) -> Sweep:
        """A sweep of which every trial could begin, as far as that can be told without one.

        Raises:
            TrainerConfigError, TrainerError, UnityException, SweepError: what is wrong.
        """
        if find_spec("optuna") is None:
            raise SweepError("this needs the package optuna: pip install 'lanista[sweep]'")
        commands = Commands(settings, folder, base_options(settings))
        space = make_space(commands)
        check_trials(commands, space)
        return cls(settings, folder, commands, space)

    def open(
        self, tell: Callable[[str], None], *, force: bool = False, program: Sequence[str] = PROGRAM
    ) -> tuple[SweepLoop, Report]:
        """Begin the sweep, or go on with it, in its folder.

        Args:
            tell: takes a line for the user.
            force: an older sweep there is set aside.
            program: what is run in place of lanista-learn.

        Raises:
            SweepError: something else is there.
        """
        from .report import Report
        from .scheduler import SweepLoop
        from .study import SweepStudy

        self._make_room(tell, force=force)
        settings = self.settings
        study = SweepStudy(settings, self.folder, self.space, self.commands.base, self._lengths())
        metric = Metric(settings.metric, settings.behavior, settings.last)
        seeds = range(settings.seed, settings.seed + settings.seeds)
        plan = TrialPlan(self.commands, metric, seeds, self._run_steps, program)
        report = Report(study, plan, self.space, self.folder.name)

        def changed() -> None:
            try:
                report.write()
            except OSError as error:  # the search itself goes on
                tell(f"The tables of {self.folder} could not be written: {error.strerror or error}.")

        return SweepLoop(study, plan, settings.parallel, tell, changed), report

    def _make_room(self, tell: Callable[[str], None], *, force: bool) -> None:
        if not self.folder.is_dir() or not any(self.folder.iterdir()):
            return
        if force:
            tell(f"The old sweep was set aside as {set_aside(self.folder)}.")
        elif not (self.folder / STUDY).is_file():
            raise SweepError(
                f"{self.folder} is there and holds no sweep: give this one another --name, or give --force "
                "to set it aside."
            )

    def _lengths(self) -> Lengths:
        first = {one.key: one.ends[0] for one in self.space}
        behavior = self._measured(self.commands.options(first))
        run_steps = behavior.max_steps
        return Lengths(run_steps, run_steps * self.settings.seeds, behavior.summary_freq)

    def _run_steps(self, values: Values) -> int:
        return self._measured(self.commands.options(values)).max_steps

    def _measured(self, options: RunOptions) -> TrainerSettings:
        """The settings of the behaviour that is measured."""
        name = self.settings.behavior or next(iter(options.behaviors), "")
        return options.behaviors.get(name) or options.default_settings or TrainerSettings()
