"""A sweep: validated as a whole, then opened in its folder."""

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
from .metric import PICTURE_NAME, STUDY, Metric, SweepError
from .settings import SweepSettings
from .space import Dimension
from .trial import RunLengths, TrialPlan
from .validation import check_trials, make_space

if TYPE_CHECKING:
    from .report import SweepReport
    from .scheduler import TrialScheduler


@dataclass(frozen=True)
class Sweep:
    """A valid sweep."""

    settings: SweepSettings
    folder: Path
    commands: Commands
    space: list[Dimension]

    @classmethod
    def checked(cls, settings: SweepSettings, folder: Path) -> Sweep:
        """Validate a sweep: every trial can start, as far as that is known without running it.

        Raises:
            TrainerConfigError, TrainerError, UnityException, SweepError: it is not valid.
        """
        if find_spec("optuna") is None:
            raise SweepError("this needs the package optuna: pip install 'lanista[sweep]'")
        commands = Commands(settings, folder, base_options(settings))
        space = make_space(commands)
        check_trials(commands, space)
        return cls(settings, folder, commands, space)

    def open(
        self, log: Callable[[str], None], *, force: bool = False, program: Sequence[str] = PROGRAM
    ) -> tuple[TrialScheduler, SweepReport]:
        """Start the sweep, or resume it, in its folder.

        Args:
            log: prints a line for the user.
            force: set an older sweep in this folder aside.
            program: the command to run instead of lanista-learn.

        Raises:
            SweepError: the folder holds something else.
        """
        from .report import SweepReport
        from .scheduler import TrialScheduler
        from .study import SweepStudy

        self._prepare_folder(log, force=force)
        settings = self.settings
        study = SweepStudy(settings, self.folder, self.space, self.commands.base, self._lengths())
        metric = Metric(settings.metric, settings.behavior, settings.last)
        seeds = range(settings.seed, settings.seed + settings.seeds)
        plan = TrialPlan(self.commands, metric, seeds, self._run_steps, program)
        report = SweepReport(study, plan, self.space, self.folder.name)
        if not report.plots:
            log(f"{PICTURE_NAME} needs the package matplotlib: pip install 'lanista[plot]'.")

        def on_change() -> None:
            try:
                report.write()
            except OSError as error:  # the search itself continues
                log(f"The reports in {self.folder} could not be written: {error.strerror or error}.")

        return TrialScheduler(study, plan, settings.parallel, log, on_change), report

    def _prepare_folder(self, log: Callable[[str], None], *, force: bool) -> None:
        if not self.folder.is_dir() or not any(self.folder.iterdir()):
            return
        if force:
            log(f"The old sweep was set aside as {set_aside(self.folder)}.")
        elif not (self.folder / STUDY).is_file():
            raise SweepError(
                f"{self.folder} exists and holds no sweep: choose another --name, or set it aside with "
                "--force."
            )

    def _lengths(self) -> RunLengths:
        first = {one.key: one.ends[0] for one in self.space}
        behavior = self._measured(self.commands.options(first))
        run_steps = behavior.max_steps
        return RunLengths(run_steps, run_steps * self.settings.seeds, behavior.summary_freq)

    def _run_steps(self, values: Values) -> int:
        return self._measured(self.commands.options(values)).max_steps

    def _measured(self, options: RunOptions) -> TrainerSettings:
        """The settings of the measured behavior."""
        name = self.settings.behavior or next(iter(options.behaviors), "")
        return options.behaviors.get(name) or options.default_settings or TrainerSettings()
