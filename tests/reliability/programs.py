"""Lanista's and ML-Agents' console scripts under the same attack: commands, configurations, environments."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script
sys.path.append(str(Path(__file__).parent))

import psutil
from console_runs import PATIENCE, learn_command, left_behind, until
from figures import LANISTA, ML_AGENTS, PRODUCTS, ROOT
from lanista.envs.scenes.registry import export
from scripted_engine import first_free_port
from training_run import peer_settings
from yaml import safe_dump

PEER = Path(os.environ.get("LANISTA_PEER") or ROOT / ".cache" / "peer" / "bin" / "python")
"""Of an environment with ML-Agents 1.1.0; tests/peer/install.sh makes one."""
OPTION = {"default": [LANISTA], "choices": PRODUCTS, "help": "programs under attack"}
"""Of the scripts, as --products."""


def python(product: str) -> str:
    """The Python that has this product. Raises SystemExit where ML-Agents is missing."""
    if product == LANISTA:
        return sys.executable
    if not PEER.exists():
        raise SystemExit(
            f"{PEER} is missing: tests/peer/install.sh puts ML-Agents there, or set LANISTA_PEER"
        )
    return str(PEER)


def command(product: str) -> list[str]:
    """`lanista-learn` or `mlagents-learn`."""
    if product == LANISTA:
        return learn_command()
    return [python(product), "-W", "ignore", str(ROOT / "tests" / "peer" / "run_peer.py")]


def configuration(product: str, settings: dict[str, Any]) -> str:
    """The YAML of a run; ML-Agents gets it without the keys that are Lanista's own."""
    settings = copy.deepcopy(settings)
    return safe_dump(peer_settings(settings) if product == ML_AGENTS else settings, sort_keys=False)


def environment(product: str, scene: str, folder: Path, count: int = 1) -> list[str]:
    """The arguments with which a program starts a scene, `count` times, on ports that are free now."""
    port = ["--base-port", str(first_free_port(count)), "--num-envs", str(count)]
    if product == LANISTA:
        return ["--env", f"scene:{scene}", *port]
    program = folder / f"{scene}.x86_64"
    return ["--env", str(program if program.exists() else export(scene, program)), *port]


@dataclass(frozen=True)
class Ended:
    """A run that is over."""

    status: int
    text: str
    """All that it printed."""
    seconds: float
    left: int
    """Processes that outlived it; they were ended."""

    @property
    def last_line(self) -> str:
        """Of what it printed, or its status."""
        lines = self.text.strip().splitlines()
        return lines[-1].strip() if lines else f"status {self.status}"


def learn(
    product: str, folder: Path, *arguments: str, yaml: str | None = None, seconds: float = PATIENCE
) -> Ended:
    """A whole run `r` in a folder; one that takes longer than `seconds` is killed, with status 124."""
    if yaml is not None:
        (folder / "c.yaml").write_text(yaml)
    begin, log = time.monotonic(), folder / "log.txt"
    words = [*command(product), "c.yaml", "--run-id", "r", "--seed", "1", *arguments]
    with log.open("w") as out:
        process = subprocess.Popen(
            words, cwd=folder, stdout=out, stderr=out, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            status = 124
    took = time.monotonic() - begin
    return Ended(status, log.read_text(errors="replace"), took, end_left_behind(folder))


def end_left_behind(folder: Path, seconds: float = 10.0) -> int:
    """How many processes that work in a folder, or for it, live on for so long; they are ended."""
    if until(lambda: not left_behind(folder), seconds):
        return 0
    left = [process for process in psutil.process_iter(["cwd", "cmdline"]) if _works_in(process, folder)]
    for process in left:
        process.kill()
    return len(left)


def _works_in(process: psutil.Process, folder: Path) -> bool:
    words = process.info["cmdline"] or []
    return process.pid != os.getpid() and (
        process.info["cwd"] == str(folder) or any(str(folder) in word for word in words)
    )
