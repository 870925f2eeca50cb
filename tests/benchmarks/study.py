"""Studies: tasks trained in several ways with several seeds, and the tables and pictures of a page.

Every run is a process of its own, started from the command line, and every score that of a fresh `lanista
play` that has nothing but the exported ONNX file. Seeds come first: all tasks and ways get a seed before the
next, so that a study that is cut off leaves a balanced table. A run is done once: it is repeated only if what
it was trained with has changed since, which a fingerprint of the settings and of the environment tells.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from curves import Panel, draw
from intervals import Curve, area, estimate
from products import LANISTA, PEER_SCRIPT, CommandFailedError, Product
from records import Records, Run, fingerprint
from results import RESULTS, table, write_page
from script_options import parse_options

SEEDS = range(10)


@dataclass(frozen=True)
class Way:
    """One way of learning a task: a row of its table."""

    config: str
    """The ready settings, from the repository's root."""
    options: Sequence[str] = ()
    """What it adds to the command."""
    environment: str = ""
    """Instead of the task's."""
    product: Product = LANISTA
    """Who trains."""
    optional: bool = False
    """Only where it is asked for."""


@dataclass(frozen=True)
class Task:
    """An environment, how long to train in it, and the ways that are compared."""

    name: str
    environment: str
    behavior: str
    """The one that is scored."""
    max_steps: int
    ways: Mapping[str, Way]
    """By their names in the CSV."""
    areas: int | None = None
    goal: float | None = None
    """What a trained model is expected to score."""
    episodes: int = 100
    sampled: bool = False
    """Whether actions are sampled where a model is scored, as Unity does by default."""
    score: str = "mean_reward"
    """What `lanista play` reports that is the score."""
    curve: str = "Environment/Cumulative Reward"
    """The statistic that the curves show."""
    summary_freq: int | None = None
    """Steps from point to point of the curves; None: as the settings have it."""
    others: Mapping[str, int] = field(default_factory=dict)
    """`max_steps` of the behaviors that are trained beside it."""
    optional: bool = False
    """Only where it is asked for."""

    def learn_command(self, way: str, seed: int, run_id: str) -> list[str]:
        """What trains it with Lanista."""
        one = self.ways[way]
        command = ["lanista-learn", one.config, *self.where(way), "--run-id", run_id, "--seed", str(seed)]
        for behavior, steps in {self.behavior: self.max_steps, **self.others}.items():
            command += ["--set", f"behaviors.{behavior}.max_steps={steps}"]
        if self.summary_freq is not None:
            command += ["--set", f"behaviors.{self.behavior}.summary_freq={self.summary_freq}"]
        return [*command, *one.options]

    def play_command(self, way: str, seed: int, brain: str) -> list[str]:
        """What scores the exported model."""
        return ["lanista", "play", brain, *self.where(way), *self._scoring(), "--seed", str(1000 + seed)]

    def where(self, way: str) -> list[str]:
        """The arguments that name the environment."""
        areas = [] if self.areas is None else ["--num-areas", str(self.areas)]
        return ["--env", self.ways[way].environment or self.environment, *areas]

    def _scoring(self) -> list[str]:
        return ["--episodes", str(self.episodes), *["--sampled"] * self.sampled]

    def fingerprint(self, way: str) -> str:
        """Of all that decides what a run of this way finds, but for the seed and the products' code."""
        settings = self.ways[way].product.settings(self, way)
        return fingerprint([self.where(way), self._scoring(), self.score, settings])


@dataclass
class Study:
    """The tasks of one page, with the runs that its CSVs hold."""

    name: str
    tasks: Sequence[Task]
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the ways, where these are not their names."""
    folder: Path = RESULTS

    def __post_init__(self) -> None:
        self.records = Records(self.name, self.folder)
        self.failed: list[str] = []
        self._fingerprints: dict[tuple[str, str], str] = {}

    # Running ------------------------------------------------------------------------------------------

    def run(self, description: str | None, arguments: Sequence[str] | None = None) -> None:
        """Parse the command line, and train and score what the CSVs lack; each result is kept at once."""
        names = [task.name for task in self.tasks]
        ways = list(dict.fromkeys(way for task in self.tasks for way in task.ways))
        given = parse_options(
            description,
            arguments,
            seeds={"default": list(SEEDS), "nargs": "*", "help": "seeds to train with; none: only the page"},
            tasks={"default": [], "type": str, "choices": names, "aliases": ["--scenes"]},
            ways={"default": [], "type": str, "choices": ways, "aliases": ["--trainers"]},
            jobs={"default": 1, "help": "runs side by side"},
            threads={"default": 1, "help": "threads of every run's PyTorch; 0: by itself"},
            peer_script={"default": PEER_SCRIPT, "type": Path, "help": "starts ML-Agents' trainer"},
        )
        chosen = self._chosen(given) if given.seeds else []
        pool = ThreadPoolExecutor(given.jobs)
        try:
            wanted = [(task, way, seed) for seed in given.seeds for task, way in chosen]
            for future in [pool.submit(self._run_one, *each, given) for each in wanted]:
                future.result()
        finally:  # after Ctrl-C no further run begins
            pool.shutdown(cancel_futures=True)
        self.records.reload()

    def _chosen(self, given: argparse.Namespace) -> list[tuple[Task, str]]:
        chosen = []
        for task in self.tasks:
            if task.name not in given.tasks and (given.tasks or task.optional):
                continue
            for name, way in task.ways.items():
                if name not in given.ways and (given.ways or way.optional):
                    continue
                if way.product.variable and not os.environ.get(way.product.variable):
                    print(f"{way.product.variable} is not set: {name} is left out of {task.name}.")
                else:
                    chosen.append((task, name))
        return chosen

    def _run_one(self, task: Task, way: str, seed: int, given: argparse.Namespace) -> None:
        """Train and score once, unless that was done meanwhile; a failure is told and the others go on."""
        title = f"{task.name}, {way}, seed {seed}"
        began = time.monotonic()
        try:
            settings = task.fingerprint(way)  # as the files are now, hours after the study began
            self.records.reload()
            if self.records.has((task.name, way, seed), task.max_steps, settings):
                return
            with TemporaryDirectory() as folder:
                found = task.ways[way].product.measure(task, way, seed, Path(folder), given)
        except Exception as error:
            self.failed.append(title)
            what = error if isinstance(error, CommandFailedError) else repr(error)
            print(f"{title} FAILED: {what}", file=sys.stderr, flush=True)
            return
        run = Run(task.name, way, seed, task.max_steps, settings, found.score, found.std, found.seconds)
        self.records.add(run, found.curve)
        print(f"{title}: {run.score:.3f} ({time.monotonic() - began:.0f} s)", flush=True)

    # What was found -----------------------------------------------------------------------------------

    def task(self, name: str) -> Task:
        """The task of that name."""
        return next(task for task in self.tasks if task.name == name)

    def _fingerprint(self, task: Task, way: str) -> str:
        key = task.name, way
        if key not in self._fingerprints:
            self._fingerprints[key] = task.fingerprint(way)
        return self._fingerprints[key]

    def _is_current(self, run: Run, task: Task) -> bool:
        return (run.max_steps, run.settings) == (task.max_steps, self._fingerprint(task, run.product))

    def runs_of(self, task: Task, way: str) -> list[Run]:
        """The runs with the settings of today, by seed."""
        found = [run for run in self.records.runs if (run.scene, run.product) == (task.name, way)]
        return sorted((run for run in found if self._is_current(run, task)), key=lambda run: run.seed)

    def older(self, task: Task, way: str) -> list[Run]:
        """The runs with the budget of today, but with other settings."""
        found = [run for run in self.records.runs if (run.scene, run.product) == (task.name, way)]
        return [run for run in found if run.max_steps == task.max_steps and not self._is_current(run, task)]

    def scores(self, task: Task, way: str) -> list[float]:
        """Of the final models, by seed."""
        return [run.score for run in self.runs_of(task, way)]

    def areas(self, task: Task, way: str) -> list[float]:
        """Under the curves, by seed; of those runs that have a curve."""
        return self._areas(self.runs_of(task, way))

    def curves(self, task: Task, way: str) -> list[Curve]:
        """Of the runs with the settings of today that have a curve, by seed."""
        known = self.records.curves()
        return [known[run.key] for run in self.runs_of(task, way) if run.key in known]

    def _areas(self, runs: Sequence[Run]) -> list[float]:
        curves = self.records.curves()
        return [area(curves[run.key], run.max_steps) for run in runs if run.key in curves]

    # The page -----------------------------------------------------------------------------------------

    def label(self, way: str) -> str:
        return self.labels.get(way, way)

    def groups(self, task: Task) -> dict[str, list[Run]]:
        """By label, the runs of each way that has any, and then those with older settings."""
        found = {self.label(way): self.runs_of(task, way) for way in task.ways}
        found |= {f"{self.label(way)}, older settings": self.older(task, way) for way in task.ways}
        return {label: runs for label, runs in found.items() if runs}

    def sections(self, describe: Callable[[Task], str]) -> str:
        """A heading, a line and the table of each task that was run."""
        parts = []
        for task in self.tasks:
            if self.groups(task):
                parts.append(f"## {task.name}: {task.max_steps:,} agent-steps\n")
                parts += [f"{describe(task)}\n", self.score_table(task), ""]
        return "\n".join(parts)

    def score_table(self, task: Task) -> str:
        """A row for each way, and one for its runs with older settings, which are to be repeated."""
        heads = ["", "runs:", "final score:", "area under the curve:", "worst run:"]
        if task.goal is not None:
            heads.append(f"at {task.goal:g} or more:")
        rows = []
        for label, runs in self.groups(task).items():
            scores, areas = [run.score for run in runs], self._areas(runs)
            row = [label, str(len(runs)), estimate(scores).text()]
            row += [estimate(areas).text() if areas else "", f"{min(scores):,.3f}"]
            if task.goal is not None:
                row.append(f"{sum(score >= task.goal for score in scores)} of {len(scores)}")
            rows.append(row)
        return table(heads, rows) if rows else "Not run yet."

    def draw(self) -> None:
        """The curves of all tasks of which there are runs, as NAME.png; nothing without any."""
        curves = self.records.curves()
        panels = []
        for task in self.tasks:
            found = {
                label: [curves[run.key] for run in runs if run.key in curves]
                for label, runs in self.groups(task).items()
            }
            if found:
                panels.append(Panel(task.name, task.max_steps, found, task.goal))
        if panels:
            draw(panels, self.folder / f"{self.name}.png")

    def commands(self, ways: Callable[[Task], Iterable[str]]) -> str:
        """What trains and scores the first seed by hand."""
        lines = []
        for task in self.tasks:
            run_id = f"{self.name}-{task.name}"
            brain = f"results/{run_id}/{task.behavior}.onnx"
            for way in ways(task):
                commands = task.learn_command(way, 0, run_id), task.play_command(way, 0, brain)
                lines.append("".join(f"    {shlex.join(command)}\n" for command in commands))
        return "\n".join(lines)

    def write_page(self, **parts: str) -> None:
        """Fill the template.

        Raises:
            SystemExit: a run failed.
        """
        write_page(self.name, self.folder, **parts)
        if self.failed:
            sys.exit(f"{len(self.failed)} runs failed: {'; '.join(self.failed)}")


def ours(task: Task) -> list[str]:
    """The ways of Lanista."""
    return [name for name, way in task.ways.items() if way.product is LANISTA]


def settings_line(task: Task) -> str:
    """The environment of a task, and links to the settings of all ways of Lanista."""
    files = ", ".join(link(task.ways[way].config) for way in ours(task))
    return f"`{' '.join(task.where(ours(task)[0]))}`; settings: {files}."


def link(path: str, text: str = "") -> str:
    """To a file of the repository, from a page of results."""
    return f"[{text or path}](../../{path})"
