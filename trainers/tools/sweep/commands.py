"""The command lines of a sweep's runs."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ...settings.command_line import parse_command_line
from ...settings.errors import dotted, logger
from ...settings.models.outputs import CONSOLE, CSV, NONE, TENSORBOARD
from ...settings.options import RunOptions
from ...utils.plugins import MLAGENTS_STATS_WRITERS, plugins
from ..run_process import ERROR_PREFIX
from .metric import SweepError
from .settings import SweepSettings

Values = Mapping[str, Any]
"""The values of a trial's parameters, by their dotted keys."""


@dataclass(frozen=True)
class Commands:
    """The command lines of a sweep's runs.

    Attributes:
        settings: of the sweep.
        folder: of the sweep, `<results>/<name>`.
        base: the configuration without the parameters.
    """

    settings: SweepSettings
    folder: Path
    base: RunOptions

    def arguments(self, values: Values, run_id: str, seed: int, *, resume: bool = False) -> list[str]:
        """The arguments of `lanista-learn` for a run of a trial with these values."""
        own = {
            "checkpoint_settings.run_id": run_id,
            "checkpoint_settings.results_dir": str(self.folder),
            "checkpoint_settings.resume": resume,
            "checkpoint_settings.force": False,
            "env_settings.seed": seed,
            "stats_writers": _writers(self.base.stats_writers),
        }
        start = self.base.checkpoint_settings.initialize_from
        if start is not None:  # its ID is looked for in the folder of the trial's runs
            run = Path(self.settings.results_dir) / start
            own["checkpoint_settings.initialize_from"] = str(run) if run.exists() else start
        return _arguments(self.settings, {**_steps(self.settings, self.base), **values, **own})

    def options(self, values: Values, run_id: str = "0", seed: int = 0) -> RunOptions:
        """The options of a run of a trial with these values.

        Raises:
            TrainerConfigError: they are not valid.
        """
        with _quietly():
            return parse_command_line(self.arguments(values, run_id, seed))

    def best(self, values: Values) -> dict[str, Any]:
        """A configuration with these values for lanista-learn, without the settings of the sweep's runs."""
        steps = _steps(self.settings, self.base)
        with _quietly():
            options = parse_command_line(_arguments(self.settings, {**steps, **values})).as_dict()
        start = options.pop("checkpoint_settings").get("initialize_from")
        if start is not None:
            options["checkpoint_settings"] = {"initialize_from": start}
        options["env_settings"].pop("seed", None)
        return options


def base_options(settings: SweepSettings) -> RunOptions:
    """The configuration that all runs share.

    Raises:
        TrainerConfigError: it is not valid.
        SweepError: the flags cannot be parsed.
    """
    output = io.StringIO()
    try:
        with contextlib.redirect_stderr(output):
            return parse_command_line(_arguments(settings, {}))
    except SystemExit:
        lines = output.getvalue().strip().splitlines() or ["they cannot be parsed"]
        raise SweepError(f"flags: {lines[-1].removeprefix(ERROR_PREFIX)}") from None


def as_text(value: Any) -> str:
    """A value as YAML on one line, for `--set`."""
    dumped: str = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), allow_unicode=True)
    return dumped.removesuffix("\n").removesuffix("\n...").strip()


@contextmanager
def _quietly() -> Iterator[None]:
    """No warnings about the configuration: they were logged once, and each run logs its own."""
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = False


def _arguments(settings: SweepSettings, values: Values) -> list[str]:
    given = {**settings.set, **values}
    if settings.env is not None:
        given = {"env_settings.env_path": settings.env, **given}
    # --set has the highest precedence; flags come last, since --env-args takes everything that follows.
    sets = [word for key, value in given.items() for word in ("--set", f"{key}={as_text(value)}")]
    preset = [] if settings.preset is None else ["--preset", settings.preset]
    return [*settings.config, *preset, *sets, *settings.flags]


def _steps(settings: SweepSettings, base: RunOptions) -> dict[str, Any]:
    if settings.max_steps is None:
        return {}
    listed = {dotted(("behaviors", name, "max_steps")): settings.max_steps for name in base.behaviors}
    return listed or {"default_settings.max_steps": settings.max_steps}


def _writers(wanted: list[str] | None) -> list[str]:
    """The writers that a run would have, and the CSV table that the sweep reads."""
    if wanted is None:
        wanted = [TENSORBOARD, CONSOLE, *plugins(MLAGENTS_STATS_WRITERS)]
    return [*(name for name in wanted if name not in (NONE, CSV)), CSV]
