"""Seconds of a policy update by one rank and by several, on processors.

    python tests/benchmarks/learners.py [--learners 1 2] [--batch 2048] [--rounds 5] [--cases pictures dense]

An update is one epoch of PPO over four minibatches, of which each rank computes its part, with one processor
thread. The table shows the median over the rounds, the least and the most.
"""

import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests

import numpy as np
import torch
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.ppo.ppo import PPO
from lanista.trainers.buffers.rollout_buffer import EvaluatedSteps
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.utils import distributed
from mlagents_envs.base_env import BehaviorSpec
from script_options import parse_options
from specs import spec_of_shapes

MINIBATCHES = 4
SHAPES = {"pictures": (3, 84, 84), "dense": (64,)}
LAYERS = {"pictures": {"vis_encode_type": "nature_cnn", "hidden_units": 256, "num_layers": 1}, "dense": {}}


def settings_of(case: str, batch: int) -> TrainerSettings:
    """PPO with shuffled minibatches of this size."""
    hyper = {"batch_size": batch, "buffer_size": MINIBATCHES * batch, "num_epoch": 1}
    return TrainerSettings.model_validate(
        {"trainer_type": "ppo", "hyperparameters": hyper, "network_settings": LAYERS[case]}
    )


def spec_of(case: str) -> BehaviorSpec:
    """One observation, and three actions to choose from."""
    return spec_of_shapes([SHAPES[case]], branches=(3,))


def steps_of(case: str, count: int) -> EvaluatedSteps:
    """Random steps; images as bytes."""
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


def measure(case: str, rank: int, ranks: int, batch: int, rounds: int, folder: str, results: Any) -> None:
    """Send what each update has taken: seconds, and seconds of a processor, of rank 0."""
    torch.set_num_threads(1)
    with distributed.process_group(rank, ranks, "cpu", rendezvous=str(Path(folder) / f"{case}-{ranks}")):
        settings = settings_of(case, batch // ranks)
        algorithm = PPO(spec_of(case), settings, torch.device("cpu"), 1, NonFinitePolicy.STOP)
        steps = steps_of(case, MINIBATCHES * batch // ranks)
        algorithm.update(steps, 0)  # the first one allocates memory
        taken = []
        for _ in range(rounds):
            start, computed = time.perf_counter(), time.process_time()
            algorithm.update(steps, 0)
            taken.append((time.perf_counter() - start, time.process_time() - computed))
        if rank == 0:
            results.put(taken)


def main() -> None:
    """Print the table."""
    cases = {"default": list(SHAPES), "choices": list(SHAPES)}
    args = parse_options(__doc__, learners=[1, 2], batch=2048, rounds=5, cases=cases)
    context = multiprocessing.get_context("spawn")
    print(f"Minibatches of {args.batch}, {MINIBATCHES} in an update.")
    print("| observations | learners | seconds of an update | of a processor, in rank 0 |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for case in args.cases:
            for ranks in args.learners:
                results = context.Queue()
                rest = (ranks, args.batch, args.rounds, folder, results)
                processes = [
                    context.Process(target=measure, args=(case, rank, *rest)) for rank in range(ranks)
                ]
                for process in processes:
                    process.start()
                whole, computed = zip(*results.get(), strict=True)
                for process in processes:
                    process.join()
                print(f"| {case} | {ranks} | {_range(whole)} | {_range(computed)} |", flush=True)


def _range(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"


if __name__ == "__main__":
    main()
