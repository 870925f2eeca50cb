"""Results: rows of measurements as CSV, and the pages of docs/results that show them."""

from __future__ import annotations

import csv
import io
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, astuple, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol, TypeVar

import psutil
from lanista.trainers.utils.atomic_files import atomic_write_bytes

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
TEMPLATES = Path(__file__).with_name("pages")
sys.path.insert(0, str(ROOT / "tests"))  # for the helpers that all tests share

LANISTA, THREADED, BF16, PEER = "Lanista", "Lanista, threaded", "Lanista, bf16", "ML-Agents"
TRAINING, ENGINE, INFERENCE = "training", "engine alone", "with inference"
Line = TypeVar("Line")


def read(path: Path, kind: type[Line]) -> list[Line]:
    """The lines of a CSV as dataclasses; none where there is no file yet.

    A column that an older file lacks has its default.
    """
    if not path.exists():
        return []
    casts = {"str": str, "int": int, "float": float, "bool": "True".__eq__}
    with path.open(encoding="utf-8", newline="") as file:
        return [
            kind(
                **{
                    each.name: casts[str(each.type)](line[each.name])
                    for each in fields(kind)  # type: ignore[arg-type]
                    if each.name in line or each.default is MISSING
                }
            )
            for line in csv.DictReader(file)
        ]


def write(path: Path, kind: type[Line], lines: Iterable[Line], digits: int = 4) -> None:
    """All lines, sorted, with numbers rounded to what a reader can use; the file changes at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(each.name for each in fields(kind))  # type: ignore[arg-type]
    for line in sorted(map(astuple, lines)):  # type: ignore[arg-type]
        writer.writerow(round(x, digits) if isinstance(x, float) else x for x in line)
    atomic_write_bytes(path, text.getvalue().encode())


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; a head that ends with a colon is that of a column of numbers."""
    lines = ["| " + " | ".join(head.removesuffix(":") for head in heads) + " |"]
    lines.append("|" + "|".join("---:" if head.endswith(":") else "---" for head in heads) + "|")
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def write_page(name: str, folder: Path = RESULTS, **parts: Any) -> str:
    """Fill the template of a page in tests/benchmarks/pages; the page, which is written to `folder`."""
    page = (TEMPLATES / f"{name}.md").read_text(encoding="utf-8").format(**parts)
    (folder / f"{name}.md").write_text(page, encoding="utf-8")
    return page


class Measurement(Protocol):
    """What every row of a measurement tells of itself."""

    @property
    def round(self) -> int: ...
    @property
    def machine(self) -> str: ...
    @property
    def commit(self) -> str: ...
    @property
    def others(self) -> float:
        """Processors that other programs kept busy meanwhile."""
        ...


@dataclass(frozen=True)
class Row:
    """One measurement of speed; what a kind does not measure is NaN."""

    kind: str
    trainer: str
    device: str
    agents: int
    round: int
    steps: int
    steps_per_s: float
    trainer_cpu_us: float
    engine_cpu_us: float
    peak_mib: float
    start_s: float
    others: float
    load: int = 0
    """Endless loops beside it, on purpose."""
    machine: str = field(default_factory=lambda: machine())
    commit: str = field(default_factory=lambda: commit())
    """Of Lanista."""

    @property
    def key(self) -> tuple[str, str, str, int, int, int]:
        return self.kind, self.trainer, self.device, self.agents, self.round, self.load


class Results:
    """The rows of one file; a new row takes the place of the one with its key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = {row.key: row for row in read(path, Row)}

    def add(self, row: Row) -> None:
        self.rows[row.key] = row
        write(self.path, Row, self.rows.values(), digits=3)

    def of(self, kind: str, trainer: str, agents: int, device: str = "cpu", load: int = 0) -> list[Row]:
        """All rounds."""
        wanted = (kind, trainer, device, agents)
        return [row for key, row in sorted(self.rows.items()) if key[:4] == wanted and row.load == load]

    def agents(self, kind: str, trainer: str, device: str = "cpu") -> list[int]:
        """The numbers of agents that there are rows of."""
        return sorted({key[3] for key in self.rows if key[:3] == (kind, trainer, device)})

    def conditions(self) -> str:
        """On which machines the rows were measured, and how busy other work kept them."""
        return conditions(row for row in self.rows.values() if row.others == row.others and not row.load)


def conditions(rows: Iterable[Measurement]) -> str:
    """On which machines these were measured, and how busy other work kept them."""
    rows = list(rows)
    if not rows:
        return "Not measured yet."
    machines = " and ".join(sorted({row.machine for row in rows}))
    return (
        f"Measured on {machines}, of which other work kept {median(rows, 'others'):.1f} busy in "
        f"the median run and {max(row.others for row in rows):.1f} in the worst."
    )


def median(rows: Iterable[Measurement], name: str) -> float:
    """The median of a column; NaN without rows."""
    values = [getattr(row, name) for row in rows]
    return statistics.median(values) if values else float("nan")


def ratios(above: Sequence[Measurement], below: Sequence[Measurement], name: str) -> list[float]:
    """Those of rounds that were measured one after the other.

    Rows of one round but of two machines, or two commits, are of two measurements.
    """
    others = {(row.round, row.machine, row.commit): getattr(row, name) for row in below}
    keys = [(row.round, row.machine, row.commit) for row in above]
    return [getattr(row, name) / others[key] for row, key in zip(above, keys) if key in others]


def median_ratio(above: Sequence[Measurement], below: Sequence[Measurement], name: str) -> float:
    """The median of `ratios`; NaN without any."""
    found = ratios(above, below, name)
    return statistics.median(found) if found else float("nan")


def best_microseconds(function: Callable[[], object], rounds: int = 5, seconds: float = 0.3) -> float:
    """Microseconds of one call, in the best of several rounds that take so many seconds together."""
    function()
    found = []
    for _ in range(rounds):
        calls, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds / rounds:
            function()
            calls += 1
        found.append(elapsed / calls)
    return 1e6 * min(found)


def commit() -> str:
    """The commit of this checkout, with a plus sign where files differ from it."""
    git = ["git", "-C", str(ROOT)]
    head = subprocess.run([*git, "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True)
    product = ["agent_processor", "envs", "trainers"]
    dirty = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", *product], capture_output=True)
    return head.stdout.strip() + "+" * (dirty.returncode == 1)


def machine() -> str:
    """This machine in a few words."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        name = lines[0].split(":")[1].strip() if lines else name
    return f"{psutil.cpu_count()} cores of {name}"
