"""Lanista beside ML-Agents 1.1.0: one command, one table.

    tests/peer/install.sh .cache/peer
    python tests/benchmarks/speed.py [--areas 12 128 1024] [--rounds 3] [--steps 96000] [--again]

Both train the same scene processes with the same YAML (config/ppo/ball3d.yaml but for its length), one after
the other and in turns, round by round; figures are medians of the rounds, ratios medians of the ratios within
a round, so that a machine that other work keeps busy for a while slows both. Steps per second and processor
time count from the first summary to the last. What docs/results/speed.csv already holds is not measured again
without `--again`. Writes that file and docs/results/speed.md.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import memory
import phases
import rates
import yaml
from results import (
    ENGINE,
    INFERENCE,
    LANISTA,
    PEER,
    ROOT,
    THREADED,
    TRAINING,
    Results,
    Row,
    machine,
    median,
    median_ratio,
    read,
    table,
    write_page,
)  # fmt: skip
from side_by_side import Case, parse_comparison, train_in_turns

CONFIG = ROOT / "config" / "ppo" / "ball3d.yaml"
SCALE = (12, 32, 64, 128, 256, 512, 1024)
TARGETS = {12: 6, 128: 12, 1024: 15}
"""What the project has promised itself, as a multiple of ML-Agents' steps per second."""


def cases(given: argparse.Namespace) -> list[Case]:
    """All trainers with the numbers of agents that were asked for, Lanista alone with more of them."""
    settings = yaml.safe_load(CONFIG.read_text())["behaviors"]["3DBall"] | {"max_steps": given.steps}
    return [
        Case(
            *(TRAINING, agents, "ball3d", "3DBall", settings, ["--areas", str(agents)]),
            trainers=(LANISTA, PEER, THREADED) if agents in given.areas else (LANISTA,),
            device=given.device,
        )
        for agents in [*given.areas, *sorted(set(SCALE) - set(given.areas))]
    ]


def measure_rates(given: argparse.Namespace, results: Results) -> None:
    """The engine alone, and with inference."""
    for turn in range(1, given.rounds + 1):
        for agents in given.areas:
            keys = [(kind, LANISTA, "cpu", agents, turn) for kind in (ENGINE, INFERENCE)]
            if given.again or not all(key in results.rows for key in keys):
                for kind, found in rates.apart(agents, seconds=3.0).items():
                    unknown = dict.fromkeys(("engine_cpu_us", "peak_mib", "start_s", "others"), math.nan)
                    row = Row(kind, LANISTA, "cpu", agents, turn, machine=machine(), **found, **unknown)
                    results.add(row)


def comparison(results: Results, device: str = "cpu") -> str:
    """Trainers beside each other."""
    heads = ["agents:", "trainer", "agent-steps/s:", "times ML-Agents:"]
    heads += ["trainer's processor time, us per agent-step:", "times less:", "engine's:", "peak memory MiB:"]
    lines = []
    for agents in results.agents(TRAINING, PEER, device) or results.agents(TRAINING, LANISTA, device):
        peer = results.of(TRAINING, PEER, agents, device)
        for trainer in (LANISTA, THREADED, PEER):
            rows = results.of(TRAINING, trainer, agents, device)
            if not rows:
                continue
            faster = median_ratio(rows, peer, "steps_per_s")
            cheaper = 1.0 / median_ratio(rows, peer, "trainer_cpu_us")
            times = ["" if trainer == PEER or math.isnan(x) else f"{x:.1f}" for x in (faster, cheaper)]
            cells = [f"{agents:,}", trainer, f"{median(rows, 'steps_per_s'):,.0f}", times[0]]
            cells += [f"{median(rows, 'trainer_cpu_us'):.1f}", times[1]]
            cells += [f"{median(rows, 'engine_cpu_us'):.1f}", f"{median(rows, 'peak_mib'):.0f}"]
            lines.append([*cells, f"{median(rows, 'start_s'):.1f}", str(len(rows))])
    return table([*heads, "start s:", "rounds:"], lines)


def three_rates(results: Results) -> str:
    """The engine alone, with inference, with training."""
    kinds = (ENGINE, INFERENCE, TRAINING)
    lines = [
        [f"{n:,}", *(f"{median(results.of(kind, LANISTA, n), 'steps_per_s'):,.0f}" for kind in kinds)]
        for n in results.agents(ENGINE, LANISTA)
    ]
    return table(["agents:", "engine alone:", "with inference:", "with training:"], lines)


def scaling(results: Results) -> str:
    """The cost of an agent-step over the number of agents."""
    lines = []
    for agents in results.agents(TRAINING, LANISTA):
        rows = results.of(TRAINING, LANISTA, agents)
        rate = median(rows, "steps_per_s")
        costs = 1e6 / rate, median(rows, "trainer_cpu_us"), median(rows, "engine_cpu_us")
        lines.append([f"{agents:,}", *(f"{cost:.1f}" for cost in costs), f"{rate:,.0f}"])
    heads = ["us per agent-step:", "of it trainer's processor time:", "engine's:", "agent-steps/s:"]
    return table(["agents:", *heads], lines)


def page(results: Results, folder: Path) -> str:
    """docs/results/speed.md, with what memory.py and phases.py have left beside it."""
    kept_phases, kept_memory = folder / "speed-phases.json", folder / "memory.csv"
    devices = sorted({key[2] for key in results.rows} - {"cpu"})
    return write_page(
        "speed",
        folder,
        busy=results.conditions(),
        comparison=comparison(results),
        targets=", ".join(f"{times} at {agents:,}" for agents, times in TARGETS.items()),
        rates=three_rates(results),
        scaling=scaling(results),
        phases=phases.table(json.loads(kept_phases.read_text())) if kept_phases.exists() else "Not measured.",
        memory=memory.described(read(kept_memory, memory.Reading))
        if kept_memory.exists()
        else "Not measured.",
        devices="".join(f"\n## On {device}\n\n{comparison(results, device)}\n" for device in devices),
    )


def main() -> None:
    areas = {"default": list(TARGETS), "help": "agents"}
    device = {"default": "cpu", "help": "--torch-device of both trainers"}
    given = parse_comparison(__doc__, LANISTA, THREADED, PEER, areas=areas, steps=96_000, device=device)
    results = Results(given.out / "speed.csv")
    train_in_turns(cases(given), given, results)
    measure_rates(given, results)
    kept = given.out / "speed-phases.json"
    if given.again or not kept.exists():
        found = [phases.apart(agents, given.steps, CONFIG) for agents in given.areas]
        kept.write_text(json.dumps(found, indent=1) + "\n")
    page(results, given.out)
    print(comparison(results, given.device))


if __name__ == "__main__":
    main()
