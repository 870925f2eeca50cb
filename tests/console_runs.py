"""Runs of the real console script `lanista-learn`, as a user sees them: status, output, files, processes."""

import contextlib
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from yaml import safe_dump

PATIENCE = 300.0 if os.name == "nt" else 120.0
"""Seconds after which a run counts as stuck; only then a test fails by time. Wine imports slowly."""


YAML = """\
behaviors:
  Ball:
    trainer_type: ppo
    hyperparameters: {batch_size: 8, buffer_size: 64}
    network_settings: {normalize: true, hidden_units: 16, num_layers: 1}
    checkpoint_interval: 100
    max_steps: 400
    time_horizon: 16
    summary_freq: 100
"""
"""For the one agent of `scripted_engine`."""


def ppo_yaml(
    behavior: str, hyperparameters: dict[str, object], network: dict[str, object], **keys: object
) -> str:
    """The configuration of one behavior, each section in a line."""
    sections = {"hyperparameters": hyperparameters, "network_settings": network}
    settings = {"trainer_type": "ppo", **sections, **keys}
    return safe_dump({"behaviors": {behavior: settings}}, sort_keys=False, default_flow_style=None)


def learn_command() -> list[str]:
    """The console script of this Python; where it is not installed, the module."""
    script = Path(sysconfig.get_path("scripts")) / "lanista-learn"
    if script.exists():
        return [str(script)]
    return [sys.executable, "-c", "from lanista.trainers.learn import main; main()"]


@dataclass
class Ended:
    """A run that is over."""

    status: int
    out: str
    err: str
    folder: Path

    @property
    def error(self) -> str:
        """The one error message, without a traceback around it."""
        assert self.status == 1, f"status {self.status}\n{self.out}\n{self.err}"
        assert "Traceback" not in self.err, self.err
        assert self.err.count("lanista-learn: error: ") == 1, self.err
        return self.err.partition("lanista-learn: error: ")[2]

    @property
    def good(self) -> bool:
        """Whether it ended as it should, without a word on standard error."""
        assert self.status == 0 and not self.err, f"status {self.status}\n{self.out}\n{self.err}"
        return True

    def files(self, pattern: str) -> list[Path]:
        """Files of the run `r` in the results."""
        return sorted((self.folder / "results" / "r").rglob(pattern))


def start(folder: Path, *arguments: str, yaml: str = YAML, **options: object) -> "subprocess.Popen[str]":
    """Start `lanista-learn c.yaml --run-id r ...` in `folder`."""
    (folder / "c.yaml").write_text(yaml, encoding="utf-8")
    return subprocess.Popen(
        [*learn_command(), "c.yaml", "--run-id", "r", "--seed", "1", *arguments],
        cwd=folder,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},  # type: ignore[call-overload]
    )


def kill_family(pid: int) -> None:
    """End a process and all that it has started: what lives on would hold its output open."""
    try:
        process = psutil.Process(pid)
        family = [*process.children(recursive=True), process]
    except psutil.NoSuchProcess:
        return
    for member in family:
        with contextlib.suppress(psutil.Error):
            member.kill()


def outcome(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """What a process has printed by its end. A stuck one is killed, with its family, and fails the test."""
    try:
        return process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        kill_family(process.pid)
        raise AssertionError(f"the process is stuck: {process.communicate(timeout=PATIENCE)}") from None


def end(process: "subprocess.Popen[str]", folder: Path) -> Ended:
    """Wait for the end of a run; nothing of it may be left."""
    out, err = outcome(process)
    assert until(lambda: not left_behind(folder)), f"left behind: {left_behind(folder)}"
    return Ended(process.returncode, out or "", err or "", folder)


def learn(folder: Path, *arguments: str, yaml: str = YAML, **options: object) -> Ended:
    """A whole run whose engines are not restarted, unless `arguments` say otherwise."""
    limits = ["--max-lifetime-restarts", "0"]
    return end(start(folder, *limits, *arguments, yaml=yaml, **options), folder)


def lanista(folder: Path, *arguments: object, status: int = 0) -> str:
    """What the console script `lanista` prints, and that it ends with this status and no traceback."""
    script = [sys.executable, "-c", "from lanista.trainers.cli.main import main; main()"]
    process = subprocess.Popen(
        [*script, *map(str, arguments)],
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = outcome(process)
    assert process.returncode == status and "Traceback" not in err, err
    return out + (err if status else "")


def left_behind(folder: Path) -> list[list[str]]:
    """Command lines of processes that work in `folder` or for it."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd", "status"]):
        command = process.info["cmdline"] or []
        mine = process.info["cwd"] == str(folder) or any(str(folder) in part for part in command)
        if mine and process.info["status"] != psutil.STATUS_ZOMBIE and process.pid != os.getpid():
            found.append(command)
    return found


def until(holds: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Whether something holds before the time is over."""
    limit = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True


def weights_are_finite(checkpoints: Sequence[Path]) -> bool:
    """Whether there are checkpoints, and every tensor in them is finite."""
    import torch
    from lanista.trainers.checkpoints.file import load_checkpoint

    for path in checkpoints:
        waiting = [load_checkpoint(path)]
        while waiting:
            value = waiting.pop()
            if isinstance(value, torch.Tensor):
                if not torch.isfinite(value.float()).all():
                    return False
            elif isinstance(value, dict):
                waiting += value.values()
            elif isinstance(value, (list, tuple)):
                waiting += value
    return bool(checkpoints)
