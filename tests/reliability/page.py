"""Writes docs/reliability.md from docs/results/reliability.csv.

    python tests/reliability/page.py

The text around the tables is tests/benchmarks/pages/reliability.md.
"""

from __future__ import annotations

import csv
import sys
from itertools import groupby
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from figures import CSV, LANISTA, PRODUCTS, ROOT, Row, Sum, rows
from results import TEMPLATES, table

FIGURES = {
    1: ("`kill -9` at random instants over whole runs, inside saves and launches: resumed (what lives on is "
        "below)", "kills.py saves.py"),
    2: ("the same run killed and resumed, and never killed, its engines restarted at the same checkpoint: "
        "pairs without a bit that differs", "resume.py"),
    3: ("an engine exits, crashes or lies at a random step: survived, without loss for the others",
        "engines.py training.py"),
    4: ("an engine hangs with its socket open, or drips: survived, without a wait for the others",
        "engines.py training.py"),
    5: ("mutated messages read or refused by name; hostile callers and connections at the port that cost the "
        "run nothing",
        "bytes.py strangers.py"),
    6: ("damaged files, cut at every byte or with a bit flipped: refused by a sentence (a traceback is none)"
        ", or read as what they say", "damaged.py"),
    7: ("NaN, infinity and 3e38 in observations and rewards, masks without a choice: named, and not in saved "
        "weights", "non_finite.py"),
    8: ("a disk that is full, out of inodes, read-only, slow or fails in fsync, during saves and logs: "
        "survived, the files before it intact",
        "disk_full.py full_disk_runs.py"),
    9: ("faults at the start of a run: one line with the cause, no traceback, nothing left", "start_up.py"),
    10: ("hours with many light environments: memory, open files, threads, speed", "soak.py"),
}  # fmt: skip
"""By number: what is counted, and the scripts that count it."""


def by_case(found: list[Row]) -> list[tuple[tuple[int, str], list[Row]]]:
    """Rows of the same figure and case, in their order."""

    def key(row: Row) -> tuple[int, str]:
        return row.figure, row.case

    return [(name, list(group)) for name, group in groupby(sorted(found, key=key), key)]


def of(found: list[Row], product: str) -> list[Row]:
    """The rows of one product."""
    return [row for row in found if row.product == product]


def summary(found: list[Row]) -> str:
    """Ten rows."""
    lines = []
    for number, (what, scripts) in FIGURES.items():
        mine = [row for row in found if row.figure == number]
        cells = [str(Sum(of(mine, p))) if of(mine, p) else "not measured" for p in PRODUCTS[::-1]]
        commands = ", ".join(f"`{name}`" for name in scripts.split())
        newest = by_commit(of(mine, LANISTA))[-1:]
        at_last = [f"{commit}: {Sum(found_then)}" for commit, found_then in newest]
        lines.append(
            [str(number), what, commands, *cells, *(at_last or [""]), Sum(mine).when if mine else ""]
        )
    heads = [
        "",
        "Figure",
        "Command",
        "ML-Agents 1.1.0",
        "Lanista, all commits",
        "Its newest commit",
        "When and where",
    ]
    return table(heads, lines)


def by_commit(found: list[Row]) -> list[tuple[str, list[Row]]]:
    """Rows of the same commit, in the order in which commits were measured last."""
    groups: dict[str, list[Row]] = {}
    for row in found:
        groups[row.commit] = [*groups.pop(row.commit, []), row]
    return list(groups.items())


def commits(found: list[Row]) -> str:
    """A row for each figure and commit of Lanista, the newest last."""
    lines = [
        [str(number), commit, Sum(rows_then).days, str(Sum(rows_then))]
        for number in FIGURES
        for commit, rows_then in by_commit([row for row in of(found, LANISTA) if row.figure == number])
    ]
    return table(["", "Commit", "When", "Held"], lines)


def cases(found: list[Row]) -> str:
    """A row for each case and product, with the newest command and its findings."""
    lines = []
    for (number, case), group in by_case(found):
        for product in PRODUCTS:
            if mine := of(group, product):
                newest = mine[-1]
                lines.append([str(number), case, product, str(Sum(mine)), newest.found.replace("|", "/"),
                              f"`{newest.command}`", Sum(mine).when])  # fmt: skip
    return table(["", "Case", "Product", "Held", "Seen last", "Last command", "When and where"], lines)


def soaked() -> str:
    """What the sessions of figure 10 add up to, of the samples of `soak.py`."""
    with CSV.with_name("soak.csv").open(encoding="utf-8", newline="") as file:
        last = {line["session"]: line for line in csv.DictReader(file)}
    steps = sum(int(line["steps"]) for line in last.values())
    hours = sum(float(line["seconds"]) for line in last.values()) / 3600
    longest = max(float(line["seconds"]) for line in last.values()) / 60
    return (
        f"{steps:,} agent-steps in {hours:.1f} h, sessions: {len(last)}, the longest of {longest:.0f} minutes"
    )


def page(found: list[Row]) -> str:
    """The page."""
    machines = "; ".join(sorted({row.machine for row in found}))
    template = (TEMPLATES / "reliability.md").read_text(encoding="utf-8")
    return template.format(
        figures=summary(found),
        commits=commits(found),
        cases=cases(found),
        machines=machines,
        soaked=soaked(),
    )


if __name__ == "__main__":
    (ROOT / "docs" / "reliability.md").write_text(page(rows()), encoding="utf-8")
