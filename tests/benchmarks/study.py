"""Studies: tasks trained in several ways with several seeds, their scores, curves, page and picture.

Every run is a process of its own, started from the command line, and every score that of a fresh `lanista
play` that has nothing but the exported ONNX file. A study's runs are rows of docs/results/NAME.csv and its
curves those of NAME-curves.csv; what is there is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

import numpy as np
import yaml
from phases import free_port
from results import RESULTS, ROOT, read, table, write, write_page
from script_options import parse_options
from training_run import peer_settings

BIN = Path(sys.executable).parent
PEER_SCRIPT = ROOT / "tests" / "peer" / "run_peer.py"
COLORS = ("#d1495b", "#30638e", "#8d99ae", "#edae49", "#00798c", "#5c4d7d")


@dataclass(frozen=True)
class Way:
    """One way of learning a task: a column of its table."""

    config: str
    """The ready settings, from the repository's root."""
    options: Sequence[str] = ()
    """What it adds to the command."""
    environment: str = ""
    """Instead of the task's."""
    python: str = ""
    """The variable that names the Python of another product, whose way this is."""
    optional: bool = False
    """Only where it is asked for."""


@dataclass(frozen=True)
class Task:
    """An environment, how long to train in it, and the ways that are compared."""

    name: str
    environment: str
    behavior: str
    max_steps: int
    ways: Mapping[str, Way]
    """By the product's name in the CSV."""
    areas: int | None = None
    goal: Any = ""
    """What is expected."""
    episodes: int = 100
    sampled: bool = False
    """Whether actions are sampled where a model is scored, as Unity does by default."""
    score: str = "mean_reward"
    """What `lanista play` reports that is the score."""
    curve: str = "Environment/Cumulative Reward"
    """The statistic that the curves show."""

    def learn_command(self, way: str, seed: int, run_id: str) -> list[str]:
        """What trains it with Lanista."""
        one = self.ways[way]
        return [
            *("lanista-learn", one.config, *self._where(way), "--run-id", run_id, "--seed", str(seed)),
            *("--set", f"behaviors.{self.behavior}.max_steps={self.max_steps}", *one.options),
        ]

    def play_command(self, way: str, seed: int, brain: str) -> list[str]:
        """What scores the exported model."""
        return [
            *("lanista", "play", brain, *self._where(way), "--episodes", str(self.episodes)),
            *("--seed", str(1000 + seed), *["--sampled"] * self.sampled),
        ]

    def _where(self, way: str) -> list[str]:
        areas = [] if self.areas is None else ["--num-areas", str(self.areas)]
        return ["--env", self.ways[way].environment or self.environment, *areas]


@dataclass(frozen=True)
class Run:
    """A line of NAME.csv."""

    scene: str
    product: str
    seed: int
    max_steps: int
    score: float
    """Mean reward of the scored episodes."""
    std: float


@dataclass(frozen=True)
class Point:
    """A line of NAME-curves.csv: a summary of a run."""

    scene: str
    product: str
    seed: int
    step: int
    reward: float
    """Mean reward of the episodes that ended since the summary before, actions sampled."""


Summary = Mapping[str, Callable[[list[float]], str]]
"""By name, a row of a table of scores: the cell for a column's."""
MEAN: Summary = {"mean": lambda scores: f"**{np.mean(scores):.3f}**"}
Measure = Callable[[Task, str, int, argparse.Namespace], tuple[Run, list[Point]]]


def run_command(command: Sequence[Any]) -> str:
    """What a command prints; if it fails, the end of that is shown and this program ends too."""
    words = [str(word) for word in command]
    if words[0] in ("lanista", "lanista-learn"):
        words[0] = str(BIN / words[0])
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\nended with {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


def train(command: Sequence[str], folder: Path, threads: int) -> Path:
    """Run `lanista-learn`, also beside other runs on this machine; the folder of its run `run`."""
    limits = ["--set", f"torch_settings.num_threads={threads}"] if threads else []
    run_command([*command, "--results-dir", folder, f"--base-port={free_port()}", *limits])
    return folder / "run"


def train_peer(task: Task, way: str, seed: int, folder: Path, script: Path) -> Path:
    """Train with `mlagents-learn` in the exported scene; the run's folder."""
    settings = yaml.safe_load((ROOT / task.ways[way].config).read_text(encoding="utf-8"))
    settings["behaviors"][task.behavior]["max_steps"] = task.max_steps
    config = folder / "settings.yaml"
    config.write_text(yaml.safe_dump(peer_settings(settings), sort_keys=False), encoding="utf-8")
    name, _, options = task.environment.removeprefix("scene:").partition("?")
    run_command(["lanista", "scenes", "export", name, folder / "scene"])
    command = [os.environ[task.ways[way].python], "-W", "ignore", script, config, "--run-id=run"]
    command += [f"--env={folder / 'scene.x86_64'}", f"--seed={seed}", f"--results-dir={folder}"]
    command += [f"--base-port={free_port()}"] + [f"--num-areas={task.areas}"] * (task.areas is not None)
    words = [word for option in options.split("&") for word in f"--{option}".split("=")] if options else []
    run_command([*command, *(["--env-args", *words] if words else [])])
    return folder / "run"


def play(command: Sequence[str]) -> dict[str, Any]:
    """What `lanista play` reports of the one behavior."""
    (figures,) = json.loads(run_command([*command, "--json"]))["behaviors"].values()
    return dict(figures)


def curve(folder: Path, tag: str) -> list[tuple[int, float]]:
    """(step, value) of every summary, as TensorBoard reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    if tag not in events.Tags()["scalars"]:
        return []
    return [(event.step, event.value) for event in events.Scalars(tag)]


def measure(task: Task, way: str, seed: int, given: argparse.Namespace) -> tuple[Run, list[Point]]:
    """Train once and score the exported model."""
    with TemporaryDirectory() as name:
        if task.ways[way].python:
            folder = train_peer(task, way, seed, Path(name), given.peer_script)
        else:
            folder = train(task.learn_command(way, seed, "run"), Path(name), given.threads)
        figures = play(task.play_command(way, seed, str(folder / f"{task.behavior}.onnx")))
        points = [Point(task.name, way, seed, *p) for p in curve(folder / task.behavior, task.curve)]
    score, spread = figures[task.score], figures[task.score.replace("mean", "std")]
    return Run(task.name, way, seed, task.max_steps, score, spread), points


@dataclass
class Study:
    """The tasks of one page, with the runs that its CSVs hold."""

    name: str
    tasks: Sequence[Task]
    measure: Measure = measure
    runs: Sequence[Run] = ()
    points: Sequence[Point] = ()

    def run(self, description: str, seeds: Sequence[int] = (0, 1, 2), threads: int = 0) -> None:
        """Parse the command line, and train and score what the CSVs lack; each result is kept at once."""
        names = [task.name for task in self.tasks]
        ways = list(dict.fromkeys(way for task in self.tasks for way in task.ways))
        given = parse_options(
            description,
            seeds={"default": list(seeds), "nargs": "*", "help": "seeds to train with; none: only the page"},
            tasks={"default": names, "choices": names, "aliases": ["--scenes"]},
            ways={"default": [], "type": str, "choices": ways, "aliases": ["--trainers"]},
            jobs={"default": 1, "help": "runs side by side"},
            threads={"default": threads, "help": "torch_settings.num_threads of every run; 0: by itself"},
            peer_script={"default": PEER_SCRIPT, "type": Path, "help": "starts ML-Agents' trainer"},
        )
        paths = RESULTS / f"{self.name}.csv", RESULTS / f"{self.name}-curves.csv"
        runs, points = read(paths[0], Run), read(paths[1], Point)
        self.runs, self.points, lock = runs, points, Lock()
        known = {(run.scene, run.product, run.seed, run.max_steps) for run in runs}

        def run_one(task: Task, way: str, seed: int) -> None:
            began = time.monotonic()
            run, new = self.measure(task, way, seed, given)
            with lock:
                runs.append(run)
                points.extend(new)
                write(paths[0], Run, runs)
                write(paths[1], Point, points)
                took = time.monotonic() - began
                print(f"{task.name}, {way}, seed {seed}: {run.score:.3f} ({took:.0f} s)", flush=True)

        with ThreadPoolExecutor(given.jobs) as pool:
            wanted = [
                (task, way, seed)
                for seed in given.seeds
                for task, way in self._chosen(given)
                if (task.name, way, seed, task.max_steps) not in known
            ]
            for future in [pool.submit(run_one, *each) for each in wanted]:
                future.result()

    def _chosen(self, given: argparse.Namespace) -> list[tuple[Task, str]]:
        chosen = []
        for task in self.tasks:
            for name, way in task.ways.items():
                if task.name not in given.tasks or name not in (given.ways or [name]):
                    continue
                if way.python and not os.environ.get(way.python):
                    print(f"{way.python} is not set: {name} is left out of {task.name}.")
                elif name in given.ways or not way.optional:
                    chosen.append((task, name))
        return chosen

    def runs_of(self, task: Task) -> list[Run]:
        """The runs of a task with the steps that it has now."""
        return [run for run in self.runs if (run.scene, run.max_steps) == (task.name, task.max_steps)]

    def measured(self, task: Task) -> list[str]:
        """The ways of which there are runs."""
        there = {run.product for run in self.runs_of(task)}
        return [way for way in task.ways if way in there]

    def sections(
        self,
        describe: Callable[[Task], str],
        title: str = "",
        summary: Callable[[Task], Summary] | None = None,
        **keys: Any,
    ) -> str:
        """A heading, a line and the table of each task.

        Args:
            describe: The line.
            title: What the heading adds, of the task's `goal`.
            summary: The rows below the seeds.
            keys: Of the table.
        """
        parts = []
        for task in self.tasks:
            if runs := self.runs_of(task):
                parts.append(
                    f"## {task.name}: {task.max_steps:,} agent-steps{title.format(goal=task.goal)}\n"
                )
                rows = MEAN if summary is None else summary(task)
                parts += [f"{describe(task)}\n", score_table(self.measured(task), runs, rows, **keys), ""]
        return "\n".join(parts)

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
        write_page(self.name, **parts)


def cell(run: Run | None, digits: int = 3) -> str:
    """A score, as tables show it."""
    return "not run" if run is None else f"{run.score:.{digits}f} (deviation {run.std:.2f})"


def link(path: str, text: str = "") -> str:
    """To a file of the repository, from a page of results."""
    return f"[{text or path}](../../{path})"


def score_table(
    ways: Sequence[str],
    runs: Sequence[Run],
    summary: Summary,
    labels: Mapping[str, str] | None = None,
    digits: int = 3,
) -> str:
    """A row for each seed, a column for each way; below them rows that sum up the columns' scores."""
    scores = {(run.product, run.seed): run for run in runs}
    rows = [
        [str(n), *(cell(scores.get((w, n)), digits) for w in ways)] for n in sorted({r.seed for r in runs})
    ]
    for name, sum_up in summary.items():
        columns = [[run.score for run in runs if run.product == way] for way in ways]
        rows.append([name, *map(sum_up, columns)])
    return table(["seed", *(f"{(labels or {}).get(way, way)}:" for way in ways)], rows)


def draw(
    tasks: Sequence[Any],
    points: Sequence[Point],
    name: str,
    label: str = "return of training episodes",
    *,
    size: tuple[float, float] | None = None,
    colors: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    legend: int | None = None,
    goals: bool = False,
) -> None:
    """One panel per task (name, ways, max_steps), all ways' curves in it, as docs/results/NAME.png.

    Args:
        legend: The panel that has the only legend; by default each has its own.
        goals: Whether a line shows each task's goal.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    size = size or (3.9 * len(tasks) + 0.6, 3.7)
    figure, panels = plt.subplots(1, len(tasks), figsize=size, squeeze=False, constrained_layout=True)
    for panel, task in zip(panels[0], tasks, strict=True):
        for way, color in (colors or dict(zip(task.ways, COLORS))).items():
            chosen = [p for p in points if p.scene == task.name and p.product == way]
            _draw_seeds(panel, chosen, (labels or {}).get(way, way), color)
        if goals:
            panel.axhline(task.goal, color="0.6", linewidth=0.9, linestyle=(0, (4, 3)))
            look = {"color": "0.4", "fontsize": 8.5, "textcoords": "offset points"}
            panel.annotate(f"goal {task.goal:g}", (0, task.goal), xytext=(2, -11), **look)
        panel.set_title(task.name, loc="left", fontweight="bold")
        panel.set_xlabel("agent-steps")
        panel.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}k")
        panel.set_xlim(0, task.max_steps)
        if legend is None:
            panel.locator_params(axis="x", nbins=5)
            panel.legend(loc="best", frameon=False)
        panel.grid(color="0.92")
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_ylabel(label)
    if legend is not None:
        panels[0][legend].legend(loc="lower right" if goals else "best", frameon=False)
    figure.savefig(RESULTS / f"{name}.png", dpi=130)
    plt.close(figure)


def _draw_seeds(panel: Any, points: Sequence[Point], label: str, color: str) -> None:
    """Thin lines for seeds; a thick one for the mean at the steps that all of them have."""
    by_seed: dict[int, dict[int, float]] = defaultdict(dict)
    for point in points:
        by_seed[point.seed][point.step] = point.reward
    if not by_seed:
        return
    for rewards in by_seed.values():
        panel.plot(*zip(*sorted(rewards.items()), strict=True), color=color, linewidth=0.8, alpha=0.45)
    common = sorted(set.intersection(*(set(rewards) for rewards in by_seed.values())))
    mean = [float(np.mean([rewards[step] for rewards in by_seed.values()])) for step in common]
    panel.plot(common, mean, color=color, linewidth=2.6, label=label)
