"""Whether behavioral cloning learns what it is shown: demonstrations by people and by brains.

    python tests/benchmarks/learning_cloning.py [--seeds 0 1 2 3 4]

From ExpertPyramid.demo, an official demonstration, 8 of its 10 episodes are learned, and the expert's actions
in the other two are to be predicted; always saying the most frequent one is what any clone has to beat. From
Real3dball.demo 10 of 13 episodes are learned; what counts is the mean squared error of continuous actions, in
the engine's units, beside that of the expert's mean action, and of a clone that is made as ML-Agents makes it
(`engine_actions: false`). Each seed holds other episodes out.

The rows are written to docs/results/cloning.csv.

Then brains that Unity ships are recorded in the scenes of their names by `lanista play`, `lanista clone`
makes a brain of the recording alone, and both play other episodes. Each seed records, clones and plays anew:
rows of docs/results/clones.csv. What is in the two files is not run again; delete lines to repeat them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.common.optim import FlatParameters
from lanista.trainers.algorithms.imitation.behavioral_cloning import BehavioralCloning, ClonedPolicy
from lanista.trainers.buffers.demonstrations import Demonstrations, load_demonstrations, of_episodes
from lanista.trainers.networks.actor import Actor
from lanista.trainers.settings.models.networks import NetworkSettings
from lanista.trainers.settings.models.rewards import BehavioralCloningSettings
from numpy.typing import NDArray
from results import RESULTS, ROOT, read, write
from script_options import parse_options

DEMOS = ROOT / "tests" / "real" / "demos"
CLONING_CSV = RESULTS / "cloning.csv"
RETURNS_CSV = RESULTS / "clones.csv"
HELD_OUT = {"ExpertPyramid": 2, "Real3dball": 3}
"""Episodes."""
UPDATES = {"ExpertPyramid": 4, "Real3dball": 150}
"""Of cloning, of 3 epochs each."""


@dataclass(frozen=True)
class Clone:
    """What one clone makes of the episodes that were held out."""

    demo: str
    engine_actions: bool
    seed: int
    held_out: str
    """Numbers of the episodes, from 0."""
    steps: int
    """In these."""
    measure: str
    clone: float
    constant: float
    """Of always doing what the expert does most often, or its mean action."""


def clone(demos: Demonstrations, seed: int, updates: int, *, engine_actions: bool) -> Actor:
    """A policy that has learned from these alone."""
    network = NetworkSettings(hidden_units=128, num_layers=2, normalize=True)
    policy = Actor(demos.spec, network, torch.Generator().manual_seed(seed))
    policy.update_normalization([torch.from_numpy(column) for column in demos.obs])
    cloning = BehavioralCloning(
        ClonedPolicy(policy, FlatParameters(policy.parameters())),
        demos,
        BehavioralCloningSettings(demo_path=""),
        learning_rate=1e-3,
        batch_size=64,
        sequence_length=1,
        device=torch.device("cpu"),
        seed=seed,
        non_finite=NonFinitePolicy.STOP,
        as_engine=engine_actions,
    )
    for update in range(updates):
        cloning.update(update)
    return policy


@torch.no_grad()
def best_actions(policy: Actor, demos: Demonstrations) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The policy's most likely action at every step: continuous as the engine gets it, and discrete."""
    mask = None if demos.action_mask is None else torch.from_numpy(demos.action_mask)
    acted = policy.act(policy.prepare([torch.from_numpy(column) for column in demos.obs]), mask)
    best = acted.deterministic()
    return acted.to_engine(best.continuous).numpy(), best.discrete.numpy()


def trial(name: str, seed: int, *, engine_actions: bool = True) -> Clone:
    """Clone all but some episodes, and predict these."""
    demos = load_demonstrations(DEMOS / f"{name}.demo")
    count = len(demos.lengths)
    held = np.sort(np.random.default_rng(seed).choice(count, HELD_OUT[name], replace=False)).tolist()
    learned = of_episodes(demos, [j for j in range(count) if j not in held])
    unseen = of_episodes(demos, held)
    policy = clone(learned, seed, UPDATES[name], engine_actions=engine_actions)
    continuous, discrete = best_actions(policy, unseen)
    if demos.spec.action_spec.discrete_size:
        measure, most = "share of actions predicted", np.bincount(learned.discrete[:, 0]).argmax()
        found, constant = (discrete == unseen.discrete).mean(), (unseen.discrete == most).mean()
    else:
        measure, mean = "mean squared error", learned.continuous.mean(axis=0)
        found = np.square(continuous - unseen.continuous).mean()
        constant = np.square(mean - unseen.continuous).mean()
    episodes = " ".join(map(str, held))
    numbers = round(float(found), 4), round(float(constant), 4)
    return Clone(name, engine_actions, seed, episodes, len(unseen), measure, *numbers)


@dataclass(frozen=True)
class Teacher:
    """A brain that Unity ships, and how a clone is made of it."""

    scene: str
    episodes: int
    """That it is recorded in."""
    decisions: int = 5000
    """After which an episode that is recorded is cut: many starts show more than long episodes."""
    options: Sequence[str] = ()
    """Of `lanista clone`."""
    sampled: bool = False
    """It has sampled actions alone, and so has its clone when both play."""


TEACHERS = {
    "3DBall": Teacher("ball3d", 50, 100),
    "Basic": Teacher("basic", 10),
    "Hallway": Teacher("hallway", 100, options=["--preset", "ppo/hallway"], sampled=True),
}
PLAYED = 20
"""Episodes that a teacher and its clone are compared in."""
OTHER_EPISODES = 1000
"""Added to the seed, so that these are not those that were recorded."""


@dataclass(frozen=True)
class Return:
    """The mean returns of a teacher and of the brain that was made of its recording alone."""

    teacher: str
    seed: int
    episodes: int
    decisions: int
    """Of each recorded episode at most."""
    options: str
    played: int
    """Episodes that both returns are the mean of."""
    teacher_return: float
    clone_return: float


def lanista(*arguments: object) -> dict[str, Any]:
    """What a command reports as JSON."""
    command = [str(Path(sys.executable).with_name("lanista")), *map(str, arguments)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(said) if "--json" in command else {}


def contest(name: str, teacher: Teacher, seed: int, played: int = PLAYED) -> Return:
    """Record a teacher, clone it, and let both play so many episodes."""
    brain = ROOT / "tests" / "real" / "onnx" / f"{name}.onnx"

    def play(who: Path, episodes: int, first: int, *options: object) -> float:
        style = ["--sampled"] if teacher.sampled and who != brain else []
        where = ("--env", f"scene:{teacher.scene}", "--episodes", episodes, "--seed", first)
        return float(lanista("play", who, *where, *style, *options, "--json")["mean_reward"])

    with TemporaryDirectory() as folder:
        cut = ("--max-decisions", teacher.decisions)
        play(brain, teacher.episodes, seed, *cut, "--record-demos", folder)
        run = ("--results-dir", folder, "--run-id", "clone", "--seed", seed, "--torch-device", "cpu")
        one_thread = ("--set", "torch_settings.num_threads=1")
        lanista("clone", Path(folder) / f"{name}.demo", *run, *one_thread, *teacher.options)
        brains = brain, Path(folder) / "clone" / f"{name}.onnx"
        returns = [play(who, played, OTHER_EPISODES + seed) for who in brains]
    options = " ".join(teacher.options)
    recorded = teacher.episodes, teacher.decisions
    return Return(name, seed, *recorded, options, played, *(round(each, 4) for each in returns))


def main() -> None:
    given = parse_options(__doc__, seeds=[0, 1, 2, 3, 4])
    torch.set_num_threads(1)
    clones = read(CLONING_CSV, Clone)
    known = {(row.demo, row.engine_actions, row.seed) for row in clones}
    for name, engine_actions in (("ExpertPyramid", True), ("Real3dball", True), ("Real3dball", False)):
        for seed in given.seeds:
            if (name, engine_actions, seed) not in known:
                clones.append(trial(name, seed, engine_actions=engine_actions))
                print(clones[-1], flush=True)
                write(CLONING_CSV, Clone, clones)
    returns = read(RETURNS_CSV, Return)
    played = {(row.teacher, row.seed) for row in returns}
    for seed in given.seeds:
        for name, teacher in TEACHERS.items():
            if (name, seed) not in played:
                returns.append(contest(name, teacher, seed))
                print(returns[-1], flush=True)
                write(RETURNS_CSV, Return, returns)


if __name__ == "__main__":
    main()
