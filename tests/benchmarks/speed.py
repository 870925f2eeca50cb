"""Lanista beside ML-Agents 1.1.0: one command, one page.

    tests/peer/install.sh .cache/peer
    python tests/benchmarks/speed.py [--tasks "ball 12" escape ...] [--rounds 3] [--load 2] [--again]

Both train the same scene processes with the same YAML (speed_tasks.py), one after the other and in turns,
round by round; figures are medians of the rounds, ratios medians of the ratios within a round, so that a
machine that other work keeps busy for a while slows both. Steps per second and processor time count from the
first summary to the last. `--load N` runs N endless loops beside. What docs/results/speed.csv already holds
is not measured again without `--again`. Writes that file and docs/results/speed.md.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import memory
import phases
import rates
import speed_gpu
import startup
from results import (
    BF16,
    ENGINE,
    INFERENCE,
    LANISTA,
    PEER,
    THREADED,
    Results,
    Row,
    median,
    read,
    table,
    write_page,
)
from side_by_side import Case, parse_comparison, train_in_turns
from side_by_side import table as comparison
from speed_tasks import SCALE, ball, tasks

OTHER = "speed-xeon.csv"
"""The rows of another processor, measured with `--out` elsewhere."""
AREAS = (12, 128, 1024)
"""Numbers of agents of which more than the rate of training is measured."""
SCALE_ONLY = {ball(agents).kind for agents in SCALE if agents not in AREAS}
"""The tasks whose rows are for the table of numbers of agents alone."""


def measure_rates(given: argparse.Namespace, results: Results) -> None:
    """The engine alone, and with inference."""
    for turn in range(1, given.rounds + 1):
        for agents in AREAS:
            keys = [(kind, LANISTA, "cpu", agents, turn, 0) for kind in (ENGINE, INFERENCE)]
            if given.again or not all(key in results.rows for key in keys):
                for kind, found in rates.apart(agents, seconds=3.0).items():
                    unknown = dict.fromkeys(("engine_cpu_us", "peak_mib", "start_s", "others"), math.nan)
                    results.add(Row(kind, LANISTA, "cpu", agents, turn, **found, **unknown))


def beside_each_other(cases: list[Case], results: Results, load: int = 0) -> str:
    """The tasks that both have trained, and those that only Lanista can train."""
    shown = [
        case
        for case in cases
        if results.of(case.kind, PEER, case.agents, case.device, load)
        or (PEER not in case.trainers and case.kind not in SCALE_ONLY)
    ]
    return comparison(shown, results, "task", "what it is", load=load) if shown else "Not measured yet."


def beside_endless_loops(cases: list[Case], results: Results) -> str:
    """The same on a busy machine."""
    loads = sorted({row.load for row in results.rows.values()} - {0})
    parts = (f"With {load} endless loops:\n\n{beside_each_other(cases, results, load)}" for load in loads)
    return "\n\n".join(parts) or "Not measured yet."


def three_rates(results: Results) -> str:
    """The engine alone, with inference, with training."""
    lines = []
    for agents in results.agents(ENGINE, LANISTA):
        kinds = (ENGINE, INFERENCE, ball(agents).kind)
        found = [median(results.of(kind, LANISTA, agents), "steps_per_s") for kind in kinds]
        lines.append([f"{agents:,}", *(f"{rate:,.0f}" for rate in found)])
    return table(["agents:", "engine alone:", "with inference:", "with training:"], lines)


def scaling(results: Results) -> str:
    """The cost of an agent-step over the number of agents."""
    lines = []
    for agents in SCALE:
        if rows := results.of(ball(agents).kind, LANISTA, agents):
            rate = median(rows, "steps_per_s")
            costs = 1e6 / rate, median(rows, "trainer_cpu_us"), median(rows, "engine_cpu_us")
            lines.append([f"{agents:,}", *(f"{cost:.1f}" for cost in costs), f"{rate:,.0f}"])
    heads = ["us per agent-step:", "of it trainer's processor time:", "engine's:", "agent-steps/s:"]
    return table(["agents:", *heads], lines)


def where_time_goes(kept: Path, cases: list[Case], results: Results) -> dict[str, str]:
    """The phases of the tasks with aims, and the limits of all that were profiled."""
    if not kept.exists():
        return {"phases": "Not measured.", "limits": "Not measured.", "tick": "?"}
    profiles = json.loads(kept.read_text())
    peers = {case.kind: median(results.of(case.kind, PEER, case.agents), "steps_per_s") for case in cases}
    aimed = {case.kind for case in cases if case.aims}
    return {
        "phases": phases.overview([profile for profile in profiles if profile["title"] in aimed]),
        "tick": next(f"{phases.tick(one, 12):.0f}" for one in profiles if one["title"] == ball(12).kind),
        "limits": phases.limits(profiles, {kind: rate for kind, rate in peers.items() if rate == rate}),
    }


def page(results: Results, folder: Path) -> str:
    """docs/results/speed.md, with what memory.py and phases.py have left beside it."""
    kept_phases, kept_memory = folder / "speed-phases.json", folder / "memory.csv"
    kept_startup = folder / "startup.csv"
    cases, other = tasks(), Results(folder / OTHER)
    return write_page(
        "speed",
        folder,
        busy=results.conditions(),
        comparison=beside_each_other(cases, results),
        loaded=beside_endless_loops(cases, results),
        other_busy=other.conditions(),
        other_comparison=beside_each_other(cases, other),
        other_loaded=beside_endless_loops(cases, other),
        gpu=speed_gpu.described(Results(folder / speed_gpu.KEPT)),
        rates=three_rates(results),
        scaling=scaling(results),
        **where_time_goes(kept_phases, cases, results),
        startup=startup.described(read(kept_startup, startup.Start))
        if kept_startup.exists()
        else "Not measured.",
        memory=memory.described(read(kept_memory, memory.Reading))
        if kept_memory.exists()
        else "Not measured.",
        teams=memory.team_buffers(),
    )


def main() -> None:
    every = tasks()
    names = [case.kind for case in every]
    known = {"default": names, "choices": names}
    given = parse_comparison(__doc__, LANISTA, BF16, THREADED, PEER, tasks=known)
    results = Results(given.out / "speed.csv")
    train_in_turns([case for case in every if case.kind in given.tasks], given, results)
    if given.tasks == names and not given.load:
        measure_rates(given, results)
        kept = given.out / "speed-phases.json"
        if given.again or not kept.exists():
            profiled = (case for case in every if case.kind not in SCALE_ONLY and not case.others)
            found = [phases.apart(case) for case in profiled]
            kept.write_text(json.dumps(found, indent=1) + "\n")
    page(results, given.out)
    print(beside_each_other(every, results, given.load))


if __name__ == "__main__":
    main()
