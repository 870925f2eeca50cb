"""Writes docs/results/speed.md from what speed.py measured."""

from __future__ import annotations

import json
import math
from pathlib import Path

import memory
import phases
from results import ENGINE, INFERENCE, LANISTA, PEER, THREADED, TRAINING, Results, Row, median, median_ratio

TARGETS = {12: 6, 128: 12, 1024: 15}
"""What the project has promised itself, as a multiple of ML-Agents' steps per second."""


def comparison(results: Results, device: str = "cpu") -> str:
    """Trainers beside each other."""
    head = [
        "agents",
        "trainer",
        "agent-steps/s",
        "times ML-Agents",
        "trainer's processor time, us per agent-step",
        "times less",
        "engine's",
        "peak memory MiB",
        "start s",
        "rounds",
    ]
    lines = ["| " + " | ".join(head) + " |", "|---:|---" + "|---:" * (len(head) - 2) + "|"]
    for agents in results.agents(TRAINING, PEER, device) or results.agents(TRAINING, LANISTA, device):
        peer = results.of(TRAINING, PEER, agents, device)
        for trainer in (LANISTA, THREADED, PEER):
            rows = results.of(TRAINING, trainer, agents, device)
            if rows:
                lines.append(_line(agents, trainer, rows, peer))
    return "\n".join(lines)


def _line(agents: int, trainer: str, rows: list[Row], peer: list[Row]) -> str:
    faster = median_ratio(rows, peer, "steps_per_s")
    cheaper = 1.0 / median_ratio(rows, peer, "trainer_cpu_us")
    cells = [
        f"{agents:,}",
        trainer,
        f"{median(rows, 'steps_per_s'):,.0f}",
        "" if trainer == PEER else _number(faster),
        f"{median(rows, 'trainer_cpu_us'):.1f}",
        "" if trainer == PEER else _number(cheaper),
        f"{median(rows, 'engine_cpu_us'):.1f}",
        f"{median(rows, 'peak_mib'):.0f}",
        f"{median(rows, 'start_s'):.1f}",
        str(len(rows)),
    ]
    return "| " + " | ".join(cells) + " |"


def three_rates(results: Results) -> str:
    """The engine alone, with inference, with training."""
    lines = ["| agents | engine alone | with inference | with training |", "|---:|---:|---:|---:|"]
    for agents in results.agents(ENGINE, LANISTA):
        kinds = (ENGINE, INFERENCE, TRAINING)
        cells = [f"{median(results.of(kind, LANISTA, agents), 'steps_per_s'):,.0f}" for kind in kinds]
        lines.append(f"| {agents:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def scaling(results: Results) -> str:
    """The cost of an agent-step over the number of agents."""
    head = "| agents | us per agent-step | of it trainer's processor time | engine's | agent-steps/s |"
    lines = [head, "|---:" * 5 + "|"]
    for agents in results.agents(TRAINING, LANISTA):
        rows = results.of(TRAINING, LANISTA, agents)
        rate = median(rows, "steps_per_s")
        trainer, engine = median(rows, "trainer_cpu_us"), median(rows, "engine_cpu_us")
        lines.append(f"| {agents:,} | {1e6 / rate:.1f} | {trainer:.1f} | {engine:.1f} | {rate:,.0f} |")
    return "\n".join(lines)


def _number(x: float) -> str:
    return "" if math.isnan(x) else f"{x:.1f}"


def _busy(results: Results) -> str:
    rows = [row for row in results.rows.values() if row.kind == TRAINING]
    if not rows:
        return ""
    most = max(row.others for row in rows)
    return (
        f"Machine: {rows[0].machine}. Other work kept {median(rows, 'others'):.1f} of its cores busy in the "
        f"median run and {most:.1f} in the worst, which costs both trainers; the processor time per "
        "agent-step suffers less from that than the steps per second."
    )


def write(results: Results, folder: Path) -> Path:
    """The whole page; its path."""
    page = _PAGE.format(
        busy=_busy(results),
        comparison=comparison(results),
        targets=", ".join(f"{times} at {agents:,}" for agents, times in TARGETS.items()),
        rates=three_rates(results),
        scaling=scaling(results),
        phases=_phases(folder / "speed-phases.json"),
        memory=_memory(folder / "memory.csv"),
        devices=_devices(results),
    )
    path = folder / "speed.md"
    path.write_text(page)
    return path


def _phases(path: Path) -> str:
    return phases.table(json.loads(path.read_text())) if path.exists() else "Not measured yet."


def _memory(path: Path) -> str:
    return memory.described(*memory.load(path)) if path.exists() else "Not measured yet."


def _devices(results: Results) -> str:
    devices = sorted({key[2] for key in results.rows} - {"cpu"})
    parts = [f"\n## On {device}\n\n{comparison(results, device)}\n" for device in devices]
    return "".join(parts)


_PAGE = """\
# Speed and memory

Written by `python tests/benchmarks/speed.py` from speed.csv; every run in it is there.

Lanista and ML-Agents 1.1.0 train the same processes of `scene:ball3d`, an engine that costs next to nothing,
with the same YAML (`config/ppo/ball3d.yaml`), in turns; medians. ML-Agents runs as its users have it: CPython
3.10 with protobuf's compiled part (`tests/peer/install.sh`). Rates and processor time count from the first
summary to the last; the start is the time from the command to the first environment step. Ratios are medians
of the ratios within a round. {busy}

## Lanista beside ML-Agents

{comparison}

Aim: at least {targets} agents. "Threaded" is `threaded: true`: the update runs beside the collecting.
{devices}
## The three rates

Agent-steps per second through the wire: an engine that gets ready actions, one that gets a policy's, and
training.

{rates}

## From few agents to many

{scaling}

## Where every microsecond goes

`python tests/benchmarks/phases.py`: microseconds per agent-step, passed and computed in the trainer's thread,
and the number of calls. What "wait" passes beyond its computing is the engine's turn, or other work's. The
timers are in these figures.

{phases}

## Memory

`python tests/benchmarks/memory.py --check`: {memory}
"""
