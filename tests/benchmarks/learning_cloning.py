"""Whether behavioral cloning learns what it is shown: demonstrations by people, some episodes held out.

    python tests/benchmarks/learning_cloning.py [--seeds 0 1 2 3 4]

From ExpertPyramid.demo, an official demonstration, 8 of its 10 episodes are learned, and the expert's actions
in the other two are to be predicted; always saying the most frequent one is what any clone has to beat. From
Real3dball.demo 10 of 13 episodes are learned; what counts is the mean squared error of continuous actions, in
the engine's units, beside that of the expert's mean action, and of a clone that is made as ML-Agents makes it
(`engine_actions: false`). Each seed holds other episodes out.

The rows are written to docs/results/cloning.csv.
"""

from __future__ import annotations

from dataclasses import dataclass

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
from results import RESULTS, ROOT, write
from script_options import parse_options

DEMOS = ROOT / "tests" / "real" / "demos"
CLONING_CSV = RESULTS / "cloning.csv"
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


def main() -> None:
    given = parse_options(__doc__, seeds=[0, 1, 2, 3, 4])
    torch.set_num_threads(1)
    rows = []
    for name, engine_actions in (("ExpertPyramid", True), ("Real3dball", True), ("Real3dball", False)):
        for seed in given.seeds:
            rows.append(trial(name, seed, engine_actions=engine_actions))
            print(rows[-1], flush=True)
    write(CLONING_CSV, Clone, rows)


if __name__ == "__main__":
    main()
