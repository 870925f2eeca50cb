"""The runs of `lanista learn --seeds`, and what the terminal shows of them."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ...cli.runs.record import read_run
from ...runner.signals import INTERRUPTED
from ...stats.progress import clock_text
from ..run_process import RunProcess

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

READ_SECONDS = 1.0
"""Seconds between two reads of the runs' folders."""
LINE_SECONDS = 10.0
"""Seconds between two lines about a seed, at least, where there is no terminal."""
_SUMMARIES = 6
"""The number of the latest summaries that the speed is measured over."""
_COLORS = {"training": "bright_cyan", "done": "bright_green", "failed": "bright_red", "stopped": "yellow"}
_AROUND = 4
"""The number of the display's lines that show no run."""


@dataclass
class SeedProgress:
    """How far a run has come by its last summary."""

    step: int = 0
    max_steps: int | None = None
    reward: float | None = None
    summaries: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_SUMMARIES))
    """When the last summaries were written, in seconds since 1970, and their steps."""
    earlier: tuple[float, int] = (0.0, 0)
    """The last summary of an earlier process, which a resumed run finds in its folder."""

    def note_earlier(self, folder: Path) -> None:
        """Look into the folder before the process starts: nothing is shown until there is more in it."""
        behavior = read_run(folder, brief=True).first
        self.earlier = (behavior.updated, behavior.steps)

    def read(self, folder: Path, *, ended: bool = False) -> None:
        """Look into the folder of the run: at the behavior with the most steps.

        `ended`: its process has ended, so that what is there counts, whoever wrote it.
        """
        behavior = read_run(folder, brief=True).first
        newest = (behavior.updated, behavior.steps)
        if newest == self.earlier and not ended:
            return
        self.step, self.max_steps, self.reward = behavior.steps, behavior.max_steps, behavior.last_reward
        # The settings, which are written at step 0, are no summary.
        if behavior.updated and behavior.steps > (self.summaries[-1][1] if self.summaries else 0):
            self.summaries.append(newest)

    @property
    def rate(self) -> float | None:
        """Steps per second between the last summaries; None before there are two."""
        if len(self.summaries) < 2:
            return None
        (first, start), (last, end) = self.summaries[0], self.summaries[-1]
        return (end - start) / (last - first) if last > first else None

    def time_left(self, now: float) -> float | None:
        """Seconds left to `max_steps` at this rate; `now`: in seconds since 1970."""
        if not self.rate or self.max_steps is None:
            return None
        return max((self.max_steps - self.step) / self.rate - (now - self.summaries[-1][0]), 0.0)


@dataclass
class SeedRun:
    """The run of one seed."""

    seed: int
    folder: Path
    arguments: list[str]
    """The arguments of `lanista learn`."""
    process: RunProcess | None = None
    began: float = 0.0
    status: int | None = None
    """The exit status of the run; None until it has ended."""
    seconds: float = 0.0
    """The seconds that the run took, once it has ended."""
    progress: SeedProgress = field(default_factory=SeedProgress)

    @property
    def log(self) -> Path:
        """The file of what the run prints, beside its folder, which it claims itself."""
        return self.folder.with_name(f"{self.folder.name}.log")

    @property
    def state(self) -> str:
        """The state of the run, in one word."""
        if self.status is not None:
            return {0: "done", INTERRUPTED: "stopped"}.get(self.status, "failed")
        return "waiting" if self.process is None else "training" if self.progress.step else "starting"

    def begin(self) -> None:
        """Start the run's process."""
        self.progress.note_earlier(self.folder)
        self.process, self.began = RunProcess(self.arguments, self.log), time.monotonic()

    def ended(self) -> bool:
        """Whether the run's process has ended; the first time that it has, its status is kept."""
        if self.process is None:
            return False
        if self.status is None:
            self.status = self.process.poll()
            self.seconds = time.monotonic() - self.began
        return self.status is not None

    def outcome(self) -> str:
        """What came of the run, in a sentence."""
        elapsed = f"after {self.seconds:.0f} s"
        if self.state == "stopped":
            return f"Seed {self.seed} was stopped {elapsed}."
        if self.state == "failed" and self.process is not None:
            return f"Seed {self.seed} failed {elapsed}: {self.process.error_message()}"
        reward = self.progress.reward
        scored = "" if reward is None else f", mean reward {reward:.4g}"
        return f"Seed {self.seed} ended {elapsed}{scored}."


class SeedDisplay:
    """Shows all seeds while the context is open: a table on a terminal, else lines."""

    def __init__(
        self, runs: Sequence[SeedRun], console: Console | None, clock: Callable[[], float] = time.time
    ) -> None:
        """`console`: the terminal to draw on; None for lines."""
        self.runs = runs
        self.stopping = False
        self._clock = clock
        self._read_at = float("-inf")
        self._reported: dict[int, tuple[float, int]] = {}
        """When a seed's last line was printed, and its step, by the seed."""
        self._console = console
        self._live: Live | None = None
        if console is not None:
            from rich.live import Live

            self._live = Live(console=console, get_renderable=self._table, refresh_per_second=2)

    def __enter__(self) -> SeedDisplay:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def began(self, run: SeedRun) -> None:
        """Show that a run's process has started."""
        if self._live is None:
            self._print(f"Seed {run.seed}: {run.folder} starts; its output goes to {run.log}")

    def ended(self, run: SeedRun) -> None:
        """Show that a run's process has ended."""
        run.progress.read(run.folder, ended=True)
        if self._live is None or run.state == "failed":
            self._print(run.outcome())

    def update(self) -> None:
        """Read how far the seeds have come, if the last read was a while ago."""
        now = self._clock()
        if now - self._read_at < READ_SECONDS:
            return
        self._read_at = now
        for run in self.runs:
            if run.process is not None and run.status is None:
                run.progress.read(run.folder)
                if self._live is None:
                    self._report(run, now)

    def _report(self, run: SeedRun, now: float) -> None:
        """Print a line about a seed that has a new summary."""
        reported, step = self._reported.get(run.seed, (float("-inf"), 0))
        if run.progress.step <= step or now - reported < LINE_SECONDS:
            return
        self._reported[run.seed] = now, run.progress.step
        steps, reward, rate, left = _figures(run, now)
        self._print(f"Seed {run.seed}: step {steps}, mean reward {reward}, {rate} steps/s, {left} left")

    def _print(self, text: str) -> None:
        if self._console is None:
            print(text, flush=True)
        else:
            self._console.print(text, markup=False, highlight=False)

    def _table(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        assert self._console is not None
        now = self._clock()
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bright_black")
        table.add_column("seed", style="bold", justify="right")
        table.add_column("state")
        for name in ("step", "mean reward", "steps/s", "time left"):
            table.add_column(name, justify="right", no_wrap=True)
        shown = self._shown(self._console.height - _AROUND)
        for run in shown:
            state = "stopping" if self.stopping and run.state in ("starting", "training") else run.state
            table.add_row(str(run.seed), Text(state, _COLORS.get(state, "")), *_figures(run, now))
        return Group(table, Text(self._below(len(self.runs) - len(shown)), style="bright_black"))

    def _shown(self, most: int) -> list[SeedRun]:
        """The runs that there is room for: those that go on, then those that failed, then the others."""
        if len(self.runs) <= most:
            return list(self.runs)
        order = {"training": 0, "starting": 0, "failed": 1}
        first = sorted(self.runs, key=lambda run: order.get(run.state, 2))[: max(most, 1)]
        return sorted(first, key=lambda run: self.runs.index(run))

    def _below(self, hidden: int) -> str:
        if all(run.state not in ("starting", "training") for run in self.runs):
            return ""
        more = f"{hidden} more have no room here. " if hidden else ""
        if self.stopping:
            return f"{more}Stopping: every run saves."
        logs = self.runs[0].log.with_name(
            f"{self.runs[0].folder.name.removesuffix(str(self.runs[0].seed))}*.log"
        )
        return f"{more}Ctrl-C stops all, and all save. Their output: {logs}"


def _figures(run: SeedRun, now: float) -> tuple[str, str, str, str]:
    """Step of how many, mean reward, steps per second, time left; dashes for what is not known."""
    progress = run.progress
    of = "" if progress.max_steps is None else f" of {progress.max_steps:,}"
    step = f"{progress.step:,}{of}" if progress.step else "-"
    reward = "-" if progress.reward is None else f"{progress.reward:.3f}"
    if run.status is not None:
        return step, reward, "-", f"took {clock_text(run.seconds)}"
    rate, left = progress.rate, progress.time_left(now)
    return (
        step,
        reward,
        "-" if rate is None else f"{rate:,.0f}",
        "-" if left is None else clock_text(left),
    )


def terminal() -> Console | None:
    """Standard output, if it is a terminal that can be drawn on."""
    if not sys.stdout.isatty():
        return None
    from rich.console import Console

    console = Console()
    return None if console.is_dumb_terminal or "utf" not in console.encoding.lower() else console
