"""Rows of measurements, kept as CSV beside the page that shows them."""

from __future__ import annotations

import csv
import platform
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import psutil

LANISTA, THREADED, BF16, PEER = "Lanista", "Lanista, threaded", "Lanista, bf16", "ML-Agents"
TRAINING, ENGINE, INFERENCE = "training", "engine alone", "with inference"


@dataclass(frozen=True)
class Row:
    """One measurement; what a kind does not measure is NaN."""

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
    machine: str

    @property
    def key(self) -> tuple[str, str, str, int, int]:
        return self.kind, self.trainer, self.device, self.agents, self.round


class Results:
    """The rows of one file; a new row takes the place of the one with its key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[tuple[str, str, str, int, int], Row] = {}
        if path.exists():
            with path.open(newline="") as file:
                for found in csv.DictReader(file):
                    row = _row(found)
                    self.rows[row.key] = row

    def add(self, row: Row) -> None:
        self.rows[row.key] = row
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("w", newline="") as file:
            writer = csv.DictWriter(file, [f.name for f in fields(Row)], lineterminator="\n")
            writer.writeheader()
            writer.writerows(_text(row) for row in sorted(self.rows.values(), key=lambda r: r.key))

    def of(self, kind: str, trainer: str, agents: int, device: str = "cpu") -> list[Row]:
        """All rounds."""
        wanted = (kind, trainer, device, agents)
        return [row for key, row in sorted(self.rows.items()) if key[:4] == wanted]

    def agents(self, kind: str, trainer: str, device: str = "cpu") -> list[int]:
        """The numbers of agents that there are rows of."""
        return sorted({key[3] for key in self.rows if key[:3] == (kind, trainer, device)})


def _row(found: dict[str, str]) -> Row:
    kinds = {"int": int, "float": float, "str": str}
    return Row(**{f.name: kinds[str(f.type)](found[f.name]) for f in fields(Row)})


def _text(row: Row) -> dict[str, object]:
    return {k: round(v, 3) if isinstance(v, float) else v for k, v in asdict(row).items()}


def median(rows: Iterable[Row], name: str) -> float:
    """The median of a column; NaN without rows."""
    values = [getattr(row, name) for row in rows]
    return statistics.median(values) if values else float("nan")


def median_ratio(above: list[Row], below: list[Row], name: str) -> float:
    """The median of the ratios of rounds that were measured one after the other; NaN without any."""
    others = {row.round: row for row in below}
    ratios = [getattr(r, name) / getattr(others[r.round], name) for r in above if r.round in others]
    return statistics.median(ratios) if ratios else float("nan")


def machine() -> str:
    """This machine in a few words."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        name = lines[0].split(":")[1].strip() if lines else name
    return f"{psutil.cpu_count()} cores of {name}"
