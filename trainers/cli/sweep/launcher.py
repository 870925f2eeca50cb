"""The runs of a sweep: lanista-learn in processes of their own, and their command lines."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ....envs.engines.own_program import own_program
from ....envs.engines.reaper import REAPER
from ....envs.regular_files import remove_link
from ...settings.command_line import parse_command_line
from ...settings.errors import dotted, logger
from ...settings.models.outputs import CONSOLE, CSV, NONE, TENSORBOARD
from ...settings.options import RunOptions
from ...utils.plugins import MLAGENTS_STATS_WRITERS, plugins
from .metric import SweepError
from .settings import SweepSettings

PROGRAM = tuple(own_program("lanista.trainers.cli.main", "learn"))
EXIT_TIMEOUT = 120.0
"""Seconds that a run has to save and exit once it is terminated."""
_ERROR = "lanista-learn: error: "
_TAIL = 65536
"""Bytes at the end of a log that are searched for its last error."""


class RunProcess:
    """A run, started in a session of its own so that Ctrl-C only reaches the sweep.

    If the sweep is killed, the process reaper ends the run.

    Args:
        arguments: of `lanista-learn`.
        log: the file to which its output is appended.
        program: the command that takes them.
    """

    def __init__(self, arguments: Sequence[str], log: Path, program: Sequence[str] = PROGRAM) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        remove_link(log)
        with log.open("ab") as output:
            self._log_start = output.tell()
            self._process = REAPER.start(
                [*program, *arguments], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        self._terminated: float | None = None
        """When it was asked to exit."""

    def poll(self) -> int | None:
        """The exit status, None while it runs; kills a run that has not exited in time."""
        status = self._process.poll()
        if status is not None:
            REAPER.remove(self._process.pid)
        elif self._terminated is not None and time.monotonic() - self._terminated > EXIT_TIMEOUT:
            self._process.kill()
        return status

    def terminate(self) -> None:
        """Let it save and exit, as Ctrl-C would; once."""
        if self._terminated is not None or self._process.poll() is not None:
            return
        self._terminated = time.monotonic()
        # Windows' Ctrl-Break reaches the process group that the run leads; its terminate() would be a kill.
        request = (
            signal.SIGTERM if os.name == "posix" else getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM)
        )
        with suppress(ProcessLookupError):
            self._process.send_signal(request)

    def kill(self) -> None:
        """Kill it."""
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        REAPER.remove(self._process.pid)

    def error_message(self) -> str:
        """The error with which it ended, on one line."""
        with self.log.open("rb") as file:
            file.seek(max(self._log_start, self.log.stat().st_size - _TAIL))
            lines = file.read().decode(errors="replace").splitlines()
        errors = [number for number, line in enumerate(lines) if line.startswith(_ERROR)]
        if errors:
            message = [line.strip() for line in lines[errors[-1] :] if line.strip()]
            return " ".join(message).removeprefix(_ERROR)
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        output = f"its last line of output: {last}" if last else "it wrote nothing"
        return f"{_describe_exit(self._process.poll())}; {output}"


def _describe_exit(status: int | None) -> str:
    if status is not None and status < 0:
        with suppress(ValueError):
            return f"it was killed by {signal.Signals(-status).name}"
    return f"it exited with status {status}"


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
        raise SweepError(f"flags: {lines[-1].removeprefix(_ERROR)}") from None


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
