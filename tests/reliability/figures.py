"""The figures of reliability: rows of docs/results/reliability.csv, and what they sum to.

A script of this folder measures one of the ten figures and, with --record, appends a row for each case and
product, so that figures grow over sessions. `page.py` writes docs/reliability.md from all of them.
"""

from __future__ import annotations

import csv
import io
import math
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "benchmarks"))

from results import RESULTS, machine, read  # noqa: E402

CSV = RESULTS / "reliability.csv"
LANISTA, ML_AGENTS = "Lanista", "ML-Agents"
PRODUCTS = [LANISTA, ML_AGENTS]


@dataclass(frozen=True)
class Row:
    """What one call of a script found in one case with one product."""

    figure: int
    """1 to 10, as in `page.FIGURES`."""
    case: str
    product: str
    date: str
    tried: int
    """Kills, files, connections, ...: what the figure counts."""
    held: int
    """Those after which all was as promised."""
    worst: float
    """The largest loss, wait, ... of all; NaN where there is none."""
    unit: str
    """Of `worst`, in words that follow the number."""
    found: str
    """What else was seen."""
    machine: str
    load: float
    """Processes that wanted a processor when the script began, as the system's one-minute average."""
    commit: str
    command: str


class Recorder:
    """Prints what a script finds and, where it is to be kept, appends it to the CSV."""

    def __init__(self, figure: int, keep: bool, path: Path = CSV) -> None:
        self.figure = figure
        self.path = path if keep else None
        self.load = os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan

    def add(
        self,
        case: str,
        product: str,
        tried: int,
        held: int,
        *,
        worst: float = math.nan,
        unit: str = "",
        found: str = "",
        figure: int | None = None,
    ) -> None:
        """Print, and keep, what was found. `figure`: where it is not the script's own."""
        row = Row(
            *(figure or self.figure, case, product, time.strftime("%Y-%m-%d", time.gmtime()), tried, held),
            *(round(worst, 4), unit, found, machine(), round(self.load, 1), _commit(), _command()),
        )
        print(f"{case}, {product}: {Sum([row])}{'; ' * bool(found)}{found}", flush=True)
        if self.path:
            append(self.path, row)


def append(path: Path, row: object) -> None:
    """Append a data class to a CSV, whose first line names the fields."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    if not path.exists():
        writer.writerow(field.name for field in fields(row))  # type: ignore[arg-type]
    writer.writerow(astuple(row))  # type: ignore[call-overload]
    with path.open("a", encoding="utf-8", newline="") as file:
        file.write(text.getvalue())  # at once: scripts may run side by side


def rows(path: Path = CSV) -> list[Row]:
    """All rows, in the order in which they were measured."""
    return read(path, Row)


class Sum:
    """Rows of one case and product, or of several cases, as one."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = list(rows)
        self.tried = sum(row.tried for row in self.rows)
        self.held = sum(row.held for row in self.rows)
        self.worst: dict[str, float] = {}
        for row in self.rows:
            if not math.isnan(row.worst):
                self.worst[row.unit] = max(row.worst, self.worst.get(row.unit, -math.inf))

    def __str__(self) -> str:
        worst = [f"at most {number:,.4g} {unit}" if number < 1000 else f"at most {number:,.0f} {unit}"
                 for unit, number in self.worst.items()]  # fmt: skip
        return ", ".join([f"{self.held:,} of {self.tried:,}", *worst])

    @property
    def days(self) -> str:
        """The first day and the last one."""
        days = sorted({row.date for row in self.rows})
        return " to ".join(dict.fromkeys((days[0], days[-1])))

    @property
    def when(self) -> str:
        """The days, the machines, and how busy they were."""
        loads = [row.load for row in self.rows]
        load = f"{min(loads):g}" if min(loads) == max(loads) else f"{min(loads):g} to {max(loads):g}"
        machines = "; ".join(sorted({row.machine for row in self.rows}))
        return f"{self.days}, {machines}, load {load}"


def _commit() -> str:
    said = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return said.stdout.strip()


def _command() -> str:
    words = [word for word in sys.argv[1:] if word != "--record"]
    return shlex.join(["python", f"tests/reliability/{Path(sys.argv[0]).name}", *words])
