"""Whether behavioural cloning learns what it is shown: demonstrations by people, some episodes held out.

    python tests/benchmarks/learning_cloning.py [--seeds 0 1 2 3 4]

From ExpertPyramid.demo, an official demonstration, 8 of its 10 episodes are learnt, and the expert's actions
in the other two are to be predicted; always saying the most frequent one is what any clone has to beat. From
Real3dball.demo 10 of 13 episodes are learnt; what counts is the mean squared error of continuous actions, in
the engine's units, beside that of the expert's mean action, and of a clone that is made as ML-Agents makes it
(`engine_actions: false`). Each seed holds other episodes out.

The rows are written to docs/results/cloning.csv.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import torch
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.common.optim import FlatParameters
from lanista.trainers.algorithms.imitation.behavioral_cloning import BehavioralCloning
from lanista.trainers.algorithms.imitation.policy_targets import ClonedPolicy
from lanista.trainers.buffers.demonstrations import Demonstrations, load_demonstrations, of_episodes
from lanista.trainers.networks.actor import Actor
from lanista.trainers.settings.models.networks import NetworkSettings
from lanista.trainers.settings.models.rewards import BehavioralCloningSettings
from numpy.typing import NDArray

REPOSITORY = Path(__file__).parents[2]
DEMOS = REPOSITORY / "tests" / "real" / "demos"
RESULTS = REPOSITORY / "docs" / "results" / "cloning.csv"
HELD_OUT = {"ExpertPyramid": 2, "Real3dball": 3}
"""Episodes."""
UPDATES = {"ExpertPyramid": 4, "Real3dball": 150}
"""Of cloning, of 3 epochs each."""


@dataclass(frozen=True)
class Row:
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
    """Of who always does what the expert does most, or on the average."""


def clone(demos: Demonstrations, seed: int, updates: int, *, engine_actions: bool) -> Actor:
    """A policy that has learnt from these alone."""
    network = NetworkSettings(hidden_units=128, num_layers=2, normalize=True)
    policy = Actor(demos.spec, network, torch.Generator().manual_seed(seed))
    policy.update_normalization([torch.from_numpy(column) for column in demos.obs])
    cloning = BehavioralCloning(
        ClonedPolicy(policy, FlatParameters(policy.parameters())),
        demos,
        BehavioralCloningSettings(demo_path="", engine_actions=engine_actions),
        learning_rate=1e-3,
        batch_size=64,
        sequence_length=1,
        device=torch.device("cpu"),
        seed=seed,
        non_finite=NonFinitePolicy.STOP,
    )
    for update in range(updates):
        cloning.update(update)
    return policy


@torch.no_grad()
def told(policy: Actor, demos: Demonstrations) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """What the policy takes for best at every step: continuous as the engine gets it, and discrete."""
    mask = None if demos.action_mask is None else torch.from_numpy(demos.action_mask)
    acted = policy.act(policy.prepare([torch.from_numpy(column) for column in demos.obs]), mask)
    best = acted.deterministic()
    return acted.to_engine(best.continuous).numpy(), best.discrete.numpy()


def trial(name: str, seed: int, *, engine_actions: bool = True) -> Row:
    """Clone all but some episodes, and look at these."""
    demos = load_demonstrations(DEMOS / f"{name}.demo")
    count = len(demos.lengths)
    held = np.sort(np.random.default_rng(seed).choice(count, HELD_OUT[name], replace=False)).tolist()
    learnt = of_episodes(demos, [j for j in range(count) if j not in held])
    unseen = of_episodes(demos, held)
    policy = clone(learnt, seed, UPDATES[name], engine_actions=engine_actions)
    continuous, discrete = told(policy, unseen)
    if demos.spec.action_spec.discrete_size:
        measure, most = "share of actions predicted", np.bincount(learnt.discrete[:, 0]).argmax()
        found, constant = (discrete == unseen.discrete).mean(), (unseen.discrete == most).mean()
    else:
        measure, mean = "mean squared error", learnt.continuous.mean(axis=0)
        found = np.square(continuous - unseen.continuous).mean()
        constant = np.square(mean - unseen.continuous).mean()
    episodes = " ".join(map(str, held))
    numbers = round(float(found), 4), round(float(constant), 4)
    return Row(name, engine_actions, seed, episodes, len(unseen), measure, *numbers)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as the module says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows = []
    for name, engine_actions in (("ExpertPyramid", True), ("Real3dball", True), ("Real3dball", False)):
        for seed in asked.seeds:
            rows.append(trial(name, seed, engine_actions=engine_actions))
            print(rows[-1], flush=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
