"""How long one gradient step of PPO, POCA, MAPPO and SAC takes, with all that its minibatch needs.

    python tests/benchmarks/updates.py [--cases ppo poca ...] [--rounds 20] [--threads 1]

Every update learns one epoch from steps that it has not seen, so that teams' minibatches vary as they do in
training: groups of three whose members leave (sets of 2 on average). SAC samples a replay of 10,000 steps.
Prints the least processor time of a minibatch over the rounds, and the least time by the clock. To compare
two checkouts run both in turns.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests

import numpy as np
import torch
from lanista.agent_processor.trajectory import Rollout
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.base import OnPolicyAlgorithm
from lanista.trainers.algorithms.mappo import MAPPO
from lanista.trainers.algorithms.poca.poca import POCA
from lanista.trainers.algorithms.ppo.ppo import PPO
from lanista.trainers.algorithms.sac.sac import SAC
from lanista.trainers.rewards.extrinsic import ExtrinsicReward
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.trainer.off_policy import OffPolicyTrainer
from lanista.trainers.trainer.on_policy import OnPolicyTrainer
from rollouts import random_rollout, rollout_with_mates
from script_options import parse_options
from specs import vector_spec
from trainer_surroundings import Events, Record

SINGLE = vector_spec([20], continuous=2)
TEAM = vector_spec([3], 1, (2,))
"""The behavior of `rollout_with_mates`."""
CASES = {
    "ppo": (PPO, 2048, 128),
    "ppo wide": (PPO, 1024, 256),
    "ppo 256": (PPO, 256, 128),
    "ppo 64": (PPO, 64, 128),
    "ppo 64 by state": (PPO, 64, 128),
    "poca": (POCA, 1024, 256),
    "mappo": (MAPPO, 1024, 256),
    "sac": (SAC, 64, 64),
    "sac by state": (SAC, 64, 64),
}
"""Algorithm, steps of a minibatch, units of each of two layers; "by state": with that exploration."""


def leaving_teams(random: np.random.Generator, steps: int) -> Rollout:
    """Groups of three, whose members leave after 1 to 64 moments."""
    lengths: list[int] = []
    mates: list[list[int]] = []
    while len(mates) < steps:
        lives = random.integers(1, 65, 3)
        first = len(mates) + np.cumsum(lives) - lives
        for i, life in enumerate(lives):
            others = [j for j in range(3) if j != i]
            for t in range(life):
                seen = [int(first[j]) + t for j in others if t < lives[j]]
                mates.append(seen + [-1] * (2 - len(seen)))
        lengths.extend(lives.tolist())
    return rollout_with_mates(lengths, np.array(mates), random)


def settings_of(name: str, **hyper: int) -> TrainerSettings:
    """The settings of a case, with these hyperparameters."""
    algorithm, batch_size, hidden = CASES[name]
    exploration = {"state_dependent_exploration": {}} if name.endswith("by state") else {}
    settings = {
        "trainer_type": algorithm.name.lower(),
        "hyperparameters": {"batch_size": batch_size, **hyper},
        "network_settings": {"hidden_units": hidden, "num_layers": 2, **exploration},
    }
    return TrainerSettings.model_validate(settings)


class Updates:
    """An algorithm and rollouts for it, evaluated as they come."""

    def __init__(self, name: str) -> None:
        make, self.batch_size, _ = CASES[name]
        self.is_team = make is not PPO
        config = settings_of(name, buffer_size=self.batch_size, num_epoch=1)
        spec = TEAM if self.is_team else SINGLE
        self.algorithm: OnPolicyAlgorithm = make(spec, config, torch.device("cpu"), 0, NonFinitePolicy.STOP)
        self.trainer = OnPolicyTrainer(config, self.algorithm, {}, Record(), Events())
        self.seen = 0

    def round(self) -> tuple[float, float]:
        """Seconds of processor time, and by the clock, of a minibatch."""
        self.seen += 1
        random, steps = np.random.default_rng(self.seen), 10 * self.batch_size
        rollout = leaving_teams(random, steps) if self.is_team else random_rollout([steps], self.seen, SINGLE)
        rewards = {"extrinsic": random.normal(size=rollout.steps).astype(np.float32)}
        found = self.algorithm.evaluate(rollout, rewards, {"extrinsic": False}).steps
        number = len(found) // self.batch_size
        clock, processor = time.perf_counter(), time.process_time()
        self.trainer.buffer.append(found)
        assert self.trainer._learn()
        return (time.process_time() - processor) / number, (time.perf_counter() - clock) / number


class ReplayUpdates:
    """SAC, and a replay to sample."""

    STEPS, IN_A_ROUND = 10_000, 100

    def __init__(self, name: str) -> None:
        config = settings_of(name)
        algorithm = SAC(SINGLE, config, torch.device("cpu"), 0, NonFinitePolicy.STOP)
        providers = {"extrinsic": ExtrinsicReward()}
        self.trainer = OffPolicyTrainer(config, algorithm, providers, Record(), Events(), SINGLE, name=name)
        rollout = random_rollout([self.STEPS], 1, SINGLE)
        self.replay = self.trainer._replay_for(rollout)
        rewards = np.random.default_rng(1).normal(size=(self.STEPS, 1)).astype(np.float32)
        self.replay.append(rollout, rewards)

    def round(self) -> tuple[float, float]:
        """Seconds of processor time, and by the clock, of a batch."""
        clock, processor = time.perf_counter(), time.process_time()
        for _ in range(self.IN_A_ROUND):
            self.trainer._gradient_step(self.replay)
        number = self.IN_A_ROUND
        return (time.process_time() - processor) / number, (time.perf_counter() - clock) / number


def main() -> None:
    options = parse_options(__doc__, cases=list(CASES), rounds=20, threads=1)
    torch.set_num_threads(options.threads)
    for name in options.cases:
        updates = ReplayUpdates(name) if CASES[name][0] is SAC else Updates(name)
        updates.round()
        processor, clock = (
            1e3 * min(column) for column in zip(*(updates.round() for _ in range(options.rounds)))
        )
        print(f"{name:15s} {processor:7.2f} ms of processor time {clock:7.2f} ms by the clock", flush=True)


if __name__ == "__main__":
    main()
