"""Lanista and ML-Agents 1.1.0 train the same processes of a scene in turns: runs, table, command."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import phases
import yaml
from results import LANISTA, PEER, THREADED, Results, Row, machine, median, median_ratio
from timed_scene import executable
from training_run import measure

ROOT = Path(__file__).resolve().parents[2]
TRAINERS = (LANISTA, PEER, THREADED)
SUMMARIES = 12
"""Of a run; the first one begins what is measured."""


@dataclass(frozen=True)
class Comparison:
    """What both train, and what is expected."""

    kind: str
    """Of the rows."""
    scene: str
    agents: int
    areas: int
    behavior: str
    settings: Mapping[str, Any]
    """Of the behaviour, as both take them."""
    steps: int
    """`max_steps` unless the command says otherwise."""
    aim: int
    """Times ML-Agents."""
    name: str
    """Of the files under docs/results."""
    page: str
    """With {busy} and {table}."""


def run_all(task: Comparison, given: argparse.Namespace, folder: Path, results: Results) -> None:
    """Measure what the rows lack, the trainers' order turning from round to round."""
    config = folder / "config.yaml"
    behavior = {**task.settings, "max_steps": given.steps, "summary_freq": given.steps // SUMMARIES}
    config.write_text(yaml.safe_dump({"behaviors": {task.behavior: behavior}}))
    for turn in range(1, given.rounds + 1):
        for trainer in TRAINERS[:: 1 if turn % 2 else -1]:
            known = (task.kind, trainer, "cpu", task.agents, turn) in results.rows
            if (given.again or not known) and trainer in given.trainers:
                run_one(task, given, folder, config, results, trainer, turn)


def run_one(
    task: Comparison,
    given: argparse.Namespace,
    folder: Path,
    config: Path,
    results: Results,
    trainer: str,
    turn: int,
) -> None:
    """Train once; the row is kept at once."""
    if trainer == PEER and not given.peer.exists():
        print(f"{given.peer} is missing: tests/peer/install.sh puts ML-Agents there", file=sys.stderr)
        return
    mark = folder / "first-step"
    command = command_of(task, trainer, given.peer)
    command += [str(config), f"--env={executable(folder, task.scene)}", "--seed=0", "--run-id=run", "--force"]
    command += [f"--results-dir={folder / 'runs'}", f"--base-port={phases.free_port()}"]
    command += ["--env-args", "--areas", str(task.areas), "--mark", str(mark)]
    found = measure(command, mark, folder / "log")
    row = Row(task.kind, trainer, "cpu", task.agents, turn, machine=machine(), **vars(found))
    results.add(row)
    print(f"{trainer}, round {turn}: {row.steps_per_s:,.0f} steps/s, {row.peak_mib:,.0f} MiB", flush=True)


def command_of(task: Comparison, trainer: str, peer: Path) -> list[str]:
    """What starts a trainer."""
    if trainer == PEER:
        return [str(peer), "-W", "ignore", str(ROOT / "tests" / "peer" / "run_peer.py")]
    command = [sys.executable, "-m", "lanista.trainers.cli.main", "learn"]
    return command + ["--set", f"behaviors.{task.behavior}.threaded=true"] * (trainer == THREADED)


def table(task: Comparison, results: Results) -> str:
    """The comparison, as Markdown."""
    lines = [
        "| trainer | agent-steps/s | times ML-Agents (aim) | processor time, us | MiB | rounds |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    peer = results.of(task.kind, PEER, task.agents)
    for trainer in (LANISTA, THREADED, PEER):
        rows = results.of(task.kind, trainer, task.agents)
        if rows:
            times = ""
            if peer and trainer != PEER:
                times = f"{median_ratio(rows, peer, 'steps_per_s'):.1f} ({task.aim})"
            speed, cpu, peak = (median(rows, key) for key in ("steps_per_s", "trainer_cpu_us", "peak_mib"))
            lines.append(f"| {trainer} | {speed:,.0f} | {times} | {cpu:,.0f} | {peak:,.0f} | {len(rows)} |")
    return "\n".join(lines)


def busy(results: Results) -> str:
    """On what it was measured, and beside what."""
    rows = list(results.rows.values())
    if not rows:
        return "Not measured yet."
    return (
        f"{rows[0].machine}; other work kept {median(rows, 'others'):.1f} of the cores busy in the median "
        f"run and {max(row.others for row in rows):.1f} in the worst."
    )


def main(task: Comparison, description: str | None) -> None:
    """The command of a script whose docstring is `description`."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trainers", nargs="+", default=list(TRAINERS), choices=TRAINERS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=task.steps, help="max_steps of every run")
    parser.add_argument("--again", action="store_true", help="measure also what the CSV holds")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    default_peer = os.environ.get("LANISTA_PEER") or ROOT / ".cache" / "peer" / "bin" / "python"
    parser.add_argument("--peer", type=Path, default=Path(default_peer), help="ML-Agents' Python")
    given = parser.parse_args()
    results = Results(given.out / f"{task.name}.csv")
    with tempfile.TemporaryDirectory() as folder:
        run_all(task, given, Path(folder), results)
    page = task.page.format(table=table(task, results), busy=busy(results))
    (given.out / f"{task.name}.md").write_text(page, encoding="utf-8")
    print(page)
