"""The products whose learning is compared: how each trains a task, and the settings it is given for that."""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from intervals import Curve
from lanista.trainers.settings.command_line import parse_command_line
from results import ROOT
from training_run import free_port, peer_settings

if TYPE_CHECKING:
    from study import Task

BIN = Path(sys.executable).parent
PEER_SCRIPT = ROOT / "tests" / "peer" / "run_peer.py"
WITHOUT_EFFECT = {"checkpoint_interval", "keep_checkpoints"}
"""Settings of a behavior that change nothing in what it learns."""


class CommandFailedError(Exception):
    """A command ended with an error; the message has the end of what it printed."""


def run_command(command: Sequence[Any], **variables: str) -> str:
    """What a command prints, which gets these environment variables too.

    Raises:
        CommandFailedError: it failed.
    """
    words = [str(word) for word in command]
    if words[0] in ("lanista", "lanista-learn"):
        words[0] = str(BIN / words[0])
    environment = {**os.environ, **variables}
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        printed = (done.stdout + done.stderr)[-4000:]
        raise CommandFailedError(f"{' '.join(words)}\nended with {done.returncode}:\n{printed}")
    return done.stdout


def limit(threads: int) -> dict[str, str]:
    """The variables that limit the threads of a product's PyTorch; 0: none."""
    return {"OMP_NUM_THREADS": str(threads)} if threads else {}


def curve(folder: Path, tag: str) -> list[tuple[int, float]]:
    """(step, value) of every summary, as TensorBoard reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    if tag not in events.Tags()["scalars"]:
        return []
    return [(event.step, event.value) for event in events.Scalars(tag)]


def play(command: Sequence[str], behavior: str = "") -> dict[str, Any]:
    """What `lanista play` reports of a behavior; of the only one without a name."""
    found = json.loads(run_command([*command, "--json"]))["behaviors"]
    (figures,) = (x for name, x in found.items() if name.partition("?")[0] == behavior or not behavior)
    return dict(figures)


def train(command: Sequence[str], folder: Path, threads: int) -> Path:
    """Run `lanista-learn`, also beside other runs on this machine; the folder of its run `run`."""
    limits = ["--set", f"torch_settings.num_threads={threads}"] if threads else []
    run_command([*command, "--results-dir", folder, f"--base-port={free_port()}", *limits])
    return folder / "run"


@dataclass(frozen=True)
class Outcome:
    """What a run is worth."""

    score: float
    std: float
    curve: Curve
    seconds: float = math.nan
    """From the command to the end of training; NaN: not measured."""


class Lanista:
    """`lanista-learn`; the model is scored by a fresh `lanista play`."""

    variable = ""
    """The environment variable that names a product's Python."""

    def settings(self, task: Task, way: str) -> Any:
        """What decides what is learned: all settings that are not at their defaults.

        A key that is added later thus leaves old runs as they are.
        """
        config, *others = task.learn_command(way, 0, "run")[1:]
        options = parse_command_line([str(ROOT / config), *others])
        behaviors = {
            name: behavior.model_dump(
                mode="json", exclude=WITHOUT_EFFECT, exclude_defaults=True, serialize_as_any=True
            )
            for name, behavior in options.behaviors.items()
        }
        return {"behaviors": behaviors, "options": list(task.ways[way].options)}

    def measure(self, task: Task, way: str, seed: int, folder: Path, given: argparse.Namespace) -> Outcome:
        """Train once and score the exported model."""
        began = time.monotonic()
        run = self.train(task, way, seed, folder, given)
        seconds = time.monotonic() - began
        figures = play(task.play_command(way, seed, str(run / f"{task.behavior}.onnx")), task.behavior)
        spread = figures[task.score.replace("mean", "std")]
        points = curve(run / task.behavior, task.curve)
        return Outcome(figures[task.score], spread, points, seconds)

    def train(self, task: Task, way: str, seed: int, folder: Path, given: argparse.Namespace) -> Path:
        """The folder of the run."""
        return train(task.learn_command(way, seed, "run"), folder, given.threads)


class MLAgents(Lanista):
    """`mlagents-learn` in the same scene, exported as an executable, with the same file of settings."""

    variable = "LANISTA_PEER"

    def settings(self, task: Task, way: str) -> Any:
        """The file without the keys that only Lanista has."""
        settings = yaml.safe_load((ROOT / task.ways[way].config).read_text(encoding="utf-8"))
        for behavior, steps in {**task.others, task.behavior: task.max_steps}.items():
            settings["behaviors"][behavior]["max_steps"] = steps
        if task.summary_freq is not None:
            settings["behaviors"][task.behavior]["summary_freq"] = task.summary_freq
        return peer_settings(settings)

    def train(self, task: Task, way: str, seed: int, folder: Path, given: argparse.Namespace) -> Path:
        """The folder of the run."""
        config = folder / "settings.yaml"
        config.write_text(yaml.safe_dump(self.settings(task, way), sort_keys=False), encoding="utf-8")
        name, _, options = task.environment.removeprefix("scene:").partition("?")
        run_command(["lanista", "scenes", "export", name, folder / "scene"])
        command = [os.environ[self.variable], "-W", "ignore", given.peer_script, config, "--run-id=run"]
        command += [f"--env={folder / 'scene.x86_64'}", f"--seed={seed}", f"--results-dir={folder}"]
        command += [f"--base-port={free_port()}"] + [f"--num-areas={task.areas}"] * (task.areas is not None)
        words = (
            [word for option in options.split("&") for word in f"--{option}".split("=")] if options else []
        )
        run_command([*command, *(["--env-args", *words] if words else [])], **limit(given.threads))
        return folder / "run"


@dataclass(frozen=True)
class Script:
    """A product that a script of tests/peer trains and scores by a plan, in a Python of its own."""

    variable: str
    script: str
    plan: Callable[[Task, str], dict[str, Any]]
    """What the script is told of a task and a way, but for the seed."""

    def settings(self, task: Task, way: str) -> Any:
        """The plan."""
        return self.plan(task, way)

    def measure(self, task: Task, way: str, seed: int, folder: Path, given: argparse.Namespace) -> Outcome:
        """What the script prints last."""
        plan = json.dumps({**self.plan(task, way), "seed": seed})
        command = [os.environ[self.variable], ROOT / "tests" / "peer" / self.script, plan]
        found = json.loads(run_command(command, **limit(given.threads)).splitlines()[-1])
        points = [(step, value) for step, value in found["curve"]]
        return Outcome(found["mean"], found["std"], points, found.get("seconds", math.nan))


LANISTA, ML_AGENTS = Lanista(), MLAgents()
Product = Lanista | Script
