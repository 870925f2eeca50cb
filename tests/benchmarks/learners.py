"""Seconds of an update by one learner and by several, on processors.

    python tests/benchmarks/learners.py [--learners 1 2] [--batch 2048] [--rounds 5] [--cases pictures dense]

Every learner has one processor thread. The numbers of learners take turns, round by round, so that what else
the machine does falls on all alike; the table has the median over the rounds, the least and the most. An
update is one epoch of PPO over four minibatches, with all that the learners tell each other for it.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch
from lanista.envs.validation import NonFinite
from lanista.trainers.algorithms.common.threads import UpdateThreads
from lanista.trainers.buffers.rollout_buffer import EvaluatedSteps
from lanista.trainers.networks.modules.precision import Precision
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.trainer.distributed.leader import LearnerTeam, described, learn_together
from lanista.trainers.trainer.distributed.worker import made_trainer
from lanista.trainers.trainer.on_policy import OnPolicyTrainer
from mlagents_envs.base_env import (
    ActionSpec,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)

MINIBATCHES = 4
SHAPES = {"pictures": (3, 84, 84), "dense": (64,)}
LAYERS = {"pictures": {"vis_encode_type": "nature_cnn", "hidden_units": 256, "num_layers": 1}, "dense": {}}


def settings_of(case: str, batch: int) -> TrainerSettings:
    """PPO, by shuffled minibatches of this size."""
    hyper = {"batch_size": batch, "buffer_size": MINIBATCHES * batch, "num_epoch": 1}
    return TrainerSettings.model_validate(
        {"trainer_type": "ppo", "hyperparameters": hyper, "network_settings": LAYERS[case]}
    )


def spec_of(case: str) -> BehaviorSpec:
    """One observation, and three actions to choose from."""
    shape = SHAPES[case]
    axes = (DimensionProperty.NONE,)
    if len(shape) == 3:
        axes = (DimensionProperty.NONE, *[DimensionProperty.TRANSLATIONAL_EQUIVARIANCE] * 2)
    return BehaviorSpec([ObservationSpec(shape, axes, ObservationType.DEFAULT, "o")], ActionSpec(0, (3,)))


def steps_of(case: str, count: int) -> EvaluatedSteps:
    """Steps drawn by chance; pictures as bytes."""
    random = np.random.default_rng(1)

    def normal(*shape: int) -> np.ndarray:
        return random.normal(size=shape).astype(np.float32)

    shape = (count, *SHAPES[case])
    obs = random.integers(0, 256, shape).astype(np.uint8) if len(shape) == 4 else normal(*shape)
    return EvaluatedSteps(
        obs=[obs],
        continuous=np.zeros((count, 0), np.float32),
        discrete=random.integers(0, 3, (count, 1)).astype(np.int32),
        log_probs=np.full((count, 1), -1.1, np.float32),
        action_mask=None,
        values=normal(count, 1),
        returns=normal(count, 1),
        advantages=normal(count),
    )


def updater(stack: ExitStack, case: str, learners: int, batch: int) -> Callable[[], tuple[float, float]]:
    """Makes an update by so many learners; how many seconds it took, and of a processor in the first."""
    of = (settings_of(case, batch), case, spec_of(case), 1, NonFinite.STOP, Precision.FLOAT32)
    trainer = made_trainer(described(*of), torch.device("cpu"), UpdateThreads(1))
    assert isinstance(trainer, OnPolicyTrainer)
    if learners > 1:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        team = stack.enter_context(LearnerTeam(learners, "cpu", logs, 1))
        learn_together(team, trainer, *of[1:])
    steps = steps_of(case, MINIBATCHES * batch + 1)

    def update() -> tuple[float, float]:
        trainer.buffer.append(steps)
        start, computed = time.perf_counter(), time.process_time()
        trainer._learn()
        return time.perf_counter() - start, time.process_time() - computed

    update()  # the first one takes memory, and starts what it needs
    return update


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--learners", type=int, nargs=2, default=[1, 2])
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cases", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(f"Minibatches of {args.batch}, {MINIBATCHES} in an update.")
    print("| senses | learners | seconds of an update | processor seconds of learner 0 |\n|---|---|---|---|")
    for case in args.cases:
        with ExitStack() as stack:
            updaters = {n: updater(stack, case, n, args.batch) for n in sorted(args.learners)}
            seconds: dict[int, list[tuple[float, float]]] = {n: [] for n in updaters}
            for _ in range(args.rounds):
                for n, update in updaters.items():
                    seconds[n].append(update())
        for n, both in seconds.items():
            whole, computed = zip(*both, strict=True)
            print(f"| {case} | {n} | {_told(whole)} | {_told(computed)} |", flush=True)


def _told(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"


if __name__ == "__main__":
    main()
