"""Lanista and ML-Agents 1.1.0 train the same processes of a scene in turns: runs, rows, tables."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from phases import free_port
from results import BF16, LANISTA, PEER, RESULTS, ROOT, THREADED, Results, Row, machine, median, median_ratio
from results import table as markdown
from script_options import parse_options
from timed_scene import executable
from training_run import measure, peer_settings

VARIANTS = {
    LANISTA: [],
    THREADED: ["--set", "behaviors.{behavior}.threaded=true"],
    BF16: ["--precision", "bf16"],
}
"""What each way of training by Lanista adds to the command."""


@dataclass(frozen=True)
class Case:
    """A scene that all trainers train with the same settings."""

    kind: str
    """Of its rows."""
    agents: int
    """In its rows."""
    scene: str
    behavior: str
    settings: Mapping[str, Any]
    """Of the behavior, as both products take them, with the length of a run."""
    engine: Sequence[str]
    """Options of the scene."""
    trainers: Sequence[str] = (LANISTA, PEER, THREADED)
    """In the order of a round; every second one goes backward."""
    options: Callable[[str], Sequence[str]] = lambda trainer: ()
    """Of the command, by trainer."""
    device: str = "cpu"
    label: Sequence[str] = ()
    """First cells of its lines in the table."""
    aims: Mapping[str, float] = field(default_factory=dict)
    """By trainer: at least so many times ML-Agents' steps per second."""
    memory_aim: float | None = None
    """For Lanista: at most so many times ML-Agents' peak memory."""


def parse_comparison(description: str | None, *trainers: str, **options: Any) -> argparse.Namespace:
    """The options of a script that compares these trainers, in the order of their columns."""
    python = os.environ.get("LANISTA_PEER") or ROOT / ".cache" / "peer" / "bin" / "python"
    shared = {
        "trainers": {"default": list(trainers), "choices": trainers},
        "rounds": {"default": 3, "help": "runs of each trainer"},
        "again": {"default": False, "help": "measure also what the CSV holds"},
        "out": {"default": RESULTS, "type": Path},
        "peer": {"default": Path(python), "type": Path, "help": "ML-Agents' Python"},
    }
    return parse_options(description, **(shared | options))


def train_in_turns(cases: Sequence[Case], given: argparse.Namespace, results: Results) -> None:
    """Measure what the rows lack; each row is kept at once."""
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(1, given.rounds + 1):
            for case in cases:
                for trainer in case.trainers[:: 1 if turn % 2 else -1]:
                    known = (case.kind, trainer, case.device, case.agents, turn) in results.rows
                    if trainer in given.trainers and (given.again or not known):
                        _train(case, trainer, turn, given.peer, Path(folder), results)


def _train(case: Case, trainer: str, turn: int, peer: Path, folder: Path, results: Results) -> None:
    if trainer == PEER and not peer.exists():
        print(f"{peer} is missing: tests/peer/install.sh puts ML-Agents there", file=sys.stderr)
        return
    mark, config = folder / "first-step", folder / "config.yaml"
    settings = {"behaviors": {case.behavior: dict(case.settings)}}
    config.write_text(yaml.safe_dump(peer_settings(settings) if trainer == PEER else settings))
    if trainer == PEER:
        command = [str(peer), "-W", "ignore", str(ROOT / "tests" / "peer" / "run_peer.py")]
    else:
        command = [sys.executable, "-m", "lanista.trainers.cli.main", "learn"]
        command += [word.format(behavior=case.behavior) for word in VARIANTS.get(trainer, ())]
    command += [str(config), f"--env={executable(folder, case.scene)}", "--seed=0", "--run-id=run", "--force"]
    command += [f"--results-dir={folder / 'runs'}", f"--base-port={free_port()}", *case.options(trainer)]
    command += [f"--torch-device={case.device}"] * (case.device != "cpu")
    found = measure([*command, "--env-args", *case.engine, "--mark", str(mark)], mark, folder / "log")
    row = Row(case.kind, trainer, case.device, case.agents, turn, machine=machine(), **vars(found))
    results.add(row)
    what = ", ".join([case.kind, trainer, f"{case.agents} agents", f"round {turn}"])
    print(f"{what}: {row.steps_per_s:,.0f} steps/s, {row.peak_mib:,.0f} MiB", flush=True)


def table(cases: Iterable[Case], results: Results, *heads: str, memory: bool = False) -> str:
    """The comparison as Markdown. `heads`: of the cases' labels; `memory`: with a column of its ratios."""
    heads += ("trainer", "agent-steps/s:", "times ML-Agents (aim):", "processor time, us:", "MiB:")
    return markdown(
        [*heads, *["of ML-Agents' (aim):"] * memory, "rounds:"],
        [
            [*case.label, trainer, *_figures(case, trainer, rows, results, memory), str(len(rows))]
            for case in cases
            for trainer in sorted(case.trainers, key=[LANISTA, BF16, THREADED, PEER].index)
            if (rows := results.of(case.kind, trainer, case.agents, case.device))
        ],
    )


def _figures(case: Case, trainer: str, rows: list[Row], results: Results, memory: bool) -> list[str]:
    peer = results.of(case.kind, PEER, case.agents, case.device)
    times = share = ""
    if peer and trainer != PEER:
        times = f"{median_ratio(rows, peer, 'steps_per_s'):.1f}"
        times += f" ({case.aims[trainer]:g})" if trainer in case.aims else ""
        share = f"{median_ratio(rows, peer, 'peak_mib'):.2f}"
        share += f" ({case.memory_aim:.2f})" if case.memory_aim and trainer == LANISTA else ""
    speed, cpu, peak = (median(rows, name) for name in ("steps_per_s", "trainer_cpu_us", "peak_mib"))
    return [f"{speed:,.0f}", times, f"{cpu:,.0f}", f"{peak:,.0f}", *[share] * memory]
