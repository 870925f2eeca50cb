"""How much the minibatches of POCA's critic tell: the signal-to-noise ratio of its gradients.

    python tests/benchmarks/critic_gradients.py [--tasks coop-push ...] [--seeds 0 1 2] [--steps 60000]

After so many agent-steps of a run of the small preset a buffer is cut into minibatches in three ways: whole
group-steps with together `batch_size` steps, as POCA learns; as many single steps in random order, each with
a set of its own; and whole group-steps with as many times more steps as a team has members. The ratio is the
squared norm of the mean gradient over the mean squared distance of a minibatch's gradient from it, of the
loss of values and baselines by all parameters of the critic. Prints it and the processor time of a minibatch:
means over the seeds, and the range of the ratios.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import torch
from lanista.trainers.algorithms.poca.minibatches import CriticBatch, TeamMinibatches, TeamSteps
from lanista.trainers.algorithms.poca.poca import BASELINE_WEIGHT, POCA
from lanista.trainers.algorithms.poca.team_values import group_by_time
from lanista.trainers.algorithms.ppo.losses import clipped_value_loss
from lanista.trainers.api import train
from results import ROOT, table
from script_options import parse_options
from torch import Tensor

TASKS = {"dungeon-escape": "DungeonEscape", "coop-push": "PushBlockCollab"}
"""Scenes, whose teams have 3 members, and their behaviors."""
MEMBERS = 3
MORE = 11_000
"""Steps after which another update has come."""
SHUFFLES = 8
"""The buffer is cut into minibatches so many times."""
_, SINGLE, LARGER = WAYS = ("group-steps", "single steps", f"group-steps, {MEMBERS} times as many")


@dataclass(frozen=True)
class Found:
    """Of one way to cut a buffer."""

    ratio: float
    milliseconds: float
    """Of processor time for the gradient of a minibatch."""


def cut(source: TeamMinibatches, way: str, size: int, random: np.random.Generator) -> Iterator[CriticBatch]:
    """Whole minibatches of about `size` steps."""
    if way != SINGLE:
        generator = torch.Generator().manual_seed(int(random.integers(2**31)))
        yield from source._group_steps(size * (MEMBERS if way == LARGER else 1), generator)
        return
    found = source._found
    order = random.permutation(len(found.own))
    for start in range(0, len(order) - size + 1, size):
        chosen = order[start : start + size]
        groups = group_by_time(found.own[chosen], found.teammates[chosen])
        rows = torch.from_numpy(chosen[groups.steps])
        yield CriticBatch(source._rows, groups, source._returns[rows], source._baselines[rows])


def gradient(algorithm: POCA, batch: CriticBatch, baseline_range: Tensor | None) -> Tensor:
    """[parameters of the critic] of POCA's loss."""
    values, baselines = algorithm._estimates(batch)
    loss = ((batch.returns - values) ** 2).mean()
    if baseline_range is None:
        loss = loss + BASELINE_WEIGHT * ((batch.returns - baselines) ** 2).mean()
    else:
        clipped = clipped_value_loss(baselines, batch.old_baselines, batch.returns, baseline_range, None)
        loss = loss + BASELINE_WEIGHT * clipped
    parameters = list(algorithm.critic.parameters())
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    return torch.cat([g.flatten() for g in found if g is not None])


def measure(algorithm: POCA, steps: TeamSteps) -> list[Found]:
    """By way, of the buffer."""
    steps = algorithm.in_units(steps)
    source = TeamMinibatches(algorithm.evaluator, steps)
    epsilon = algorithm.schedules.at(0)[1]
    baseline_range = algorithm._baseline_range(epsilon, steps)
    results = []
    for way in WAYS:
        random, start = np.random.default_rng(1), time.process_time()
        found = torch.stack(
            [
                gradient(algorithm, batch, baseline_range)
                for _ in range(SHUFFLES)
                for batch in cut(source, way, algorithm.hyper.batch_size, random)
            ]
        )
        milliseconds = 1e3 * (time.process_time() - start) / len(found)
        mean = found.mean(0)
        results.append(
            Found(float(mean.square().sum() / (found - mean).square().sum(1).mean()), milliseconds)
        )
    return results


def run(task: str, seed: int, steps: int) -> list[Found]:
    """Train, and measure before the first update after so many steps."""
    found: list[Found] = []
    usual = POCA.update

    def update(self: POCA, learned: TeamSteps, policy_step: int) -> dict[str, float]:
        if not found and policy_step >= steps:
            found.extend(measure(self, learned))
        return usual(self, learned, policy_step)

    with tempfile.TemporaryDirectory() as folder, patch.object(POCA, "update", update):
        train(
            ROOT / "config" / "poca" / f"{task}-small.yaml",
            env=f"scene:{task}?size=small",
            overrides={
                f"behaviors.{TASKS[task]}.max_steps": steps + MORE,
                "env_settings.seed": seed,
                "env_settings.num_areas": 32,
                "torch_settings.num_threads": 1,
                "checkpoint_settings.results_dir": folder,
            },
        )
    return found


def row(task: str, way: str, found: Sequence[Found]) -> list[str]:
    """Means, and the range of the ratios."""
    ratios = [one.ratio for one in found]
    spread = f"{np.mean(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]"
    return [task, way, spread, f"{np.mean([one.milliseconds for one in found]):.0f}"]


if __name__ == "__main__":
    given = parse_options(__doc__, tasks=list(TASKS), seeds=[0, 1, 2], steps=60_000)
    rows = []
    for task in given.tasks:
        by_seed = [run(task, seed, given.steps) for seed in given.seeds]
        rows += [row(task, way, [found[i] for found in by_seed]) for i, way in enumerate(WAYS)]
    print(table(["task", "minibatches of", "signal to noise:", "ms:"], rows))
