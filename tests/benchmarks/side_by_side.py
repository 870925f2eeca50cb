"""Lanista and ML-Agents 1.1.0 train the same processes of a scene in turns: runs, rows, tables."""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from results import BF16, LANISTA, PEER, RESULTS, ROOT, THREADED, Results, Row, median, median_ratio, ratios
from results import table as markdown
from script_options import parse_options
from timed_scene import executable
from training_run import Measured, free_port, measure, peer_settings

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
    others: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of the scene's further behaviors."""


def parse_comparison(description: str | None, *trainers: str, **options: Any) -> argparse.Namespace:
    """The options of a script that compares these trainers, in the order of their columns."""
    python = os.environ.get("LANISTA_PEER") or ROOT / ".cache" / "peer" / "bin" / "python"
    shared = {
        "trainers": {"default": list(trainers), "choices": trainers},
        "rounds": {"default": 3, "help": "runs of each trainer"},
        "again": {"default": False, "help": "measure also what the CSV holds"},
        "load": {"default": 0, "help": "endless loops that run meanwhile"},
        "out": {"default": RESULTS, "type": Path},
        "peer": {"default": Path(python), "type": Path, "help": "ML-Agents' Python"},
    }
    return parse_options(description, **(shared | options))


def train_in_turns(
    cases: Sequence[Case], given: argparse.Namespace, results: Results, machine: str | None = None
) -> None:
    """Measure what the rows lack; each row is kept at once. `machine`: its name in the rows."""
    named = {} if machine is None else {"machine": machine}
    with tempfile.TemporaryDirectory() as folder, endless_loops(given.load):
        for turn in range(1, given.rounds + 1):
            for case in cases:
                for trainer in case.trainers[:: 1 if turn % 2 else -1]:
                    key = (case.kind, trainer, case.device, case.agents, turn, given.load)
                    wanted = trainer in given.trainers and (given.again or key not in results.rows)
                    if wanted and (found := train(case, trainer, given.peer, Path(folder))):
                        results.add(Row(*key[:-1], load=key[-1], **vars(found), **named))
                        rate, peak = f"{found.steps_per_s:,.0f} steps/s", f"{found.peak_mib:,.0f} MiB"
                        print(f"{case.kind}, {trainer}, round {turn}: {rate}, {peak}", flush=True)


@contextmanager
def endless_loops(number: int) -> Iterator[None]:
    """Processes that do nothing for ever, as fast as they can, while the context is open."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def train(case: Case, trainer: str, peer: Path, folder: Path) -> Measured | None:
    """One run; None where there is no ML-Agents to run."""
    if trainer == PEER and not peer.exists():
        print(f"{peer} is missing: tests/peer/install.sh puts ML-Agents there", file=sys.stderr)
        return None
    mark, config = folder / "first-step", folder / "config.yaml"
    behaviors = {case.behavior: case.settings, **case.others}
    settings = {"behaviors": {name: dict(own) for name, own in behaviors.items()}}
    config.write_text(yaml.safe_dump(peer_settings(settings) if trainer == PEER else settings))
    if trainer == PEER:
        command = [str(peer), "-W", "ignore", str(ROOT / "tests" / "peer" / "run_peer.py")]
    else:
        command = [sys.executable, "-m", "lanista.trainers.cli.main", "learn"]
        command += [word.format(behavior=case.behavior) for word in VARIANTS.get(trainer, ())]
    command += [str(config), f"--env={executable(folder, case.scene)}", "--seed=0", "--run-id=run", "--force"]
    command += [f"--results-dir={folder / 'runs'}", f"--base-port={free_port()}", *case.options(trainer)]
    command.append(f"--torch-device={case.device}")
    command += ["--env-args", *case.engine, "--mark", str(mark)]
    return measure(command, mark, folder / "log", len(behaviors))


def table(cases: Iterable[Case], results: Results, *heads: str, load: int = 0) -> str:
    """The comparison as Markdown.

    Args:
        cases: Its lines; those without rows are left out.
        results: Their rows.
        heads: Of the cases' labels.
        load: Endless loops beside.
    """
    heads += ("trainer", "agent-steps/s:", "times ML-Agents (wanted):")
    heads += ("trainer's processor time, us per agent-step:", "times less:")
    heads += ("peak memory, MiB:", "of ML-Agents' (wanted):", "start s:", "rounds:", "other work:")
    lines = []
    for case in cases:
        label = list(case.label)
        for trainer in sorted(case.trainers, key=[LANISTA, BF16, THREADED, PEER].index):
            if rows := results.of(case.kind, trainer, case.agents, case.device, load):
                peer = results.of(case.kind, PEER, case.agents, case.device, load)
                conditions = [str(len(rows)), f"{median(rows, 'others'):.1f}"]
                lines.append([*label, trainer, *_figures(case, trainer, rows, peer), *conditions])
                label = [""] * len(label)
    return markdown(list(heads), lines)


def _figures(case: Case, trainer: str, rows: list[Row], peer: list[Row]) -> list[str]:
    names = ("steps_per_s", "trainer_cpu_us", "peak_mib")
    speed, cpu, peak = (f"{median(rows, name):,.0f}" for name in names)
    start = f"{median(rows, 'start_s'):.1f}"
    times = less = share = ""
    faster, dearer, larger = (median_ratio(rows, peer, name) for name in names)
    if trainer != PEER and not math.isnan(faster):
        times, less, share = f"{faster:.1f}", f"{1 / dearer:.1f}", f"{larger:.2f}"
        each = ratios(rows, peer, "steps_per_s")
        times += f" [{min(each):.1f}, {max(each):.1f}]" if len(each) > 1 else ""
        times += f" ({case.aims[trainer]:g})" if trainer in case.aims else ""
        share += f" ({case.memory_aim:.2f})" if case.memory_aim and trainer == LANISTA else ""
    return [speed, times, cpu, less, peak, share, start]
