"""A run of a trial: lanista-learn in a process of its own.

The command line of lanista-learn that a sweep's run is started with, and the options that it gives.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ....envs.unity.process import REAPER
from ...settings.command_line import parse_command_line
from ...settings.errors import logger
from ...settings.models.outputs import CONSOLE, CSV, NONE, TENSORBOARD
from ...settings.options import RunOptions
from ...settings.problems import dotted
from ...utils.plugins import MLAGENTS_STATS_WRITERS, plugins
from .metric import SweepError
from .settings import SweepSettings

PROGRAM = (sys.executable, "-m", "lanista.trainers.cli.main", "learn")
PATIENCE = 120.0
"""Seconds that a run has to save and end once it is asked to."""
_ERROR = "lanista-learn: error: "
_KEPT = 65536
"""Bytes at the end of a log in which its last error is looked for."""


class RunProcess:
    """A run, started in a session of its own, so that Ctrl-C reaches the sweep alone.

    Should the sweep be killed, the reaper ends the run.

    Args:
        arguments: what stands behind `lanista-learn`.
        log: the file to which its output is appended.
        program: what is run with them.
    """

    def __init__(self, arguments: Sequence[str], log: Path, program: Sequence[str] = PROGRAM) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        with log.open("ab") as output:
            self._from = output.tell()
            self._process = subprocess.Popen(
                [*program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        REAPER.add(self._process.pid)
        self._asked: float | None = None

    def poll(self) -> int | None:
        """Its exit status, None while it runs; one that was asked to end and does not is killed here."""
        status = self._process.poll()
        if status is not None:
            REAPER.remove(self._process.pid)
        elif self._asked is not None and time.monotonic() - self._asked > PATIENCE:
            self._process.kill()
        return status

    def ask_to_end(self) -> None:
        """Let it save and end in good order, as Ctrl-C would; once."""
        if self._asked is not None or self._process.poll() is not None:
            return
        self._asked = time.monotonic()
        # Windows' Ctrl-Break reaches the group that the run leads; its terminate() would be a kill.
        wanted = signal.SIGTERM if os.name == "posix" else getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM)
        with suppress(ProcessLookupError):
            self._process.send_signal(wanted)

    def kill(self) -> None:
        """End it at once."""
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        REAPER.remove(self._process.pid)

    def complaint(self) -> str:
        """The error with which it ended, in one line."""
        with self.log.open("rb") as file:
            file.seek(max(self._from, self.log.stat().st_size - _KEPT))
            lines = file.read().decode(errors="replace").splitlines()
        errors = [number for number, line in enumerate(lines) if line.startswith(_ERROR)]
        if errors:
            told = [line.strip() for line in lines[errors[-1] :] if line.strip()]
            return " ".join(told).removeprefix(_ERROR)
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it wrote nothing")
        return f"{_how(self._process.poll())}; its last words: {last}"


def _how(status: int | None) -> str:
    if status is not None and status < 0:
        with suppress(ValueError):
            return f"it was ended by {signal.Signals(-status).name}"
    return f"it ended with status {status}"


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
