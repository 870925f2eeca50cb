"""The command line of lanista-learn that a sweep's run is started with, and the options that it gives."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..plugins.entry_points import MLAGENTS_STATS_WRITERS, plugins
from ..settings.command_line import parse_command_line
from ..settings.notes import logger
from ..settings.options import RunOptions
from ..settings.problems import dotted
from ..stats.settings import CONSOLE, CSV, NONE, TENSORBOARD
from .errors import SweepError
from .settings import SweepSettings

Values = Mapping[str, Any]
"""What each parameter is in a trial, by its dotted key."""


@dataclass(frozen=True)
class Commands:
    """Makes the command lines of a sweep's runs.

    Attributes:
        settings: the sweep's.
        folder: the sweep's own, `<results>/<name>`.
        base: the configuration without the parameters.
    """

    settings: SweepSettings
    folder: Path
    base: RunOptions

    def arguments(self, values: Values, run_id: str, seed: int, *, resume: bool = False) -> list[str]:
        """What stands behind `lanista-learn` for a run of a trial with these values."""
        ours = {
            "checkpoint_settings.run_id": run_id,
            "checkpoint_settings.results_dir": str(self.folder),
            "checkpoint_settings.resume": resume,
            "checkpoint_settings.force": False,
            "env_settings.seed": seed,
            "stats_writers": _writers(self.base.stats_writers),
        }
        return _arguments(self.settings, {**_steps(self.settings, self.base), **values, **ours})

    def options(self, values: Values, run_id: str = "0", seed: int = 0) -> RunOptions:
        """The options that a run of a trial with these values would have.

        Raises:
            TrainerConfigError: something in them is wrong.
        """
        with _quietly():
            return parse_command_line(self.arguments(values, run_id, seed))

    def best(self, values: Values) -> dict[str, Any]:
        """A configuration of these values for lanista-learn, without what belongs to the sweep's runs."""
        steps = _steps(self.settings, self.base)
        with _quietly():
            told = parse_command_line(_arguments(self.settings, {**steps, **values})).as_dict()
        del told["checkpoint_settings"]
        told["env_settings"].pop("seed", None)
        return told


def base_options(settings: SweepSettings) -> RunOptions:
    """The configuration that all runs share.

    Raises:
        TrainerConfigError: something in it is wrong.
        SweepError: the flags cannot be read.
    """
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return parse_command_line(_arguments(settings, {}))
    except SystemExit:
        lines = said.getvalue().strip().splitlines() or ["they cannot be read"]
        complaint = lines[-1].removeprefix("lanista-learn: error: ")
        raise SweepError(f"flags: {complaint}") from None


def as_text(value: Any) -> str:
    """A value as YAML in one line, as `--set` takes it."""
    dumped: str = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), allow_unicode=True)
    return dumped.removesuffix("\n").removesuffix("\n...").strip()


@contextmanager
def _quietly() -> Iterator[None]:
    """While open, no warnings about the configuration: they were told once, and each run logs its own."""
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = False


def _arguments(settings: SweepSettings, values: Values) -> list[str]:
    given = {**settings.set, **values}
    if settings.env is not None:
        given = {"env_settings.env_path": settings.env, **given}
    # Of all that may be said of a key, --set wins; flags come last, since --env-args takes what follows.
    sets = [word for key, value in given.items() for word in ("--set", f"{key}={as_text(value)}")]
    preset = [] if settings.preset is None else ["--preset", settings.preset]
    return [*settings.config, *preset, *sets, *settings.flags]


def _steps(settings: SweepSettings, base: RunOptions) -> dict[str, Any]:
    if settings.max_steps is None:
        return {}
    listed = {dotted(("behaviors", name, "max_steps")): settings.max_steps for name in base.behaviors}
    return listed or {"default_settings.max_steps": settings.max_steps}


def _writers(wanted: list[str] | None) -> list[str]:
    """What a run writes by itself, and the table that the sweep reads."""
    if wanted is None:
        wanted = [TENSORBOARD, CONSOLE, *plugins(MLAGENTS_STATS_WRITERS)]
    return [*(name for name in wanted if name not in (NONE, CSV)), CSV]
