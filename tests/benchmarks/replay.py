"""Measures the replay: sampling images from it, its memory, what it costs to fill, save and load.

    python tests/benchmarks/replay.py [--steps 100000] [--batch 256] [--file FOLDER]

Images are 84x84 of bytes in stacks of 4, as agents of Atari games see them; with --steps 1000000 the
memory is that of the usual size. Reports milliseconds for a batch (observations and next observations), the
memory of the full replay beside what was predicted, and with --file the seconds of saving and loading.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests

import numpy as np
import torch
from lanista.agent_processor.trajectory import Rollout
from lanista.trainers.buffers.replay.buffer import Replay
from lanista.trainers.buffers.replay.columns import ReplayLayout
from lanista.trainers.buffers.replay.memory_limit import size_text
from lanista.trainers.buffers.replay.sampler import ReplaySampler
from lanista.trainers.buffers.replay.storage import load_replay, save_replay
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from numpy.typing import NDArray
from rollouts import make_rollout
from script_options import parse_options
from specs import image_spec

SIDE, STACK, HORIZON, EPISODE = 84, 4, 128, 8
"""Pixels, frames, steps of a trajectory, trajectories of an episode."""
CAMERA = image_spec(STACK, SIDE, SIDE)._replace(name=f"StackingSensor_size{STACK}_Camera")
SPEC = BehaviorSpec([CAMERA], ActionSpec.create_discrete((6,)))


class NoisyAgent:
    """Hands over one agent's trajectories, whose frames are noise."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.trajectories = 0
        self.seen = self._first()

    def _first(self) -> NDArray[np.uint8]:
        """What is seen at an episode's start: one frame after black ones."""
        seen = np.zeros((STACK, SIDE, SIDE), np.uint8)
        seen[-1] = self._frames(1)
        return seen

    def _frames(self, count: int) -> NDArray[np.uint8]:
        return self.random.integers(0, 256, (count, SIDE, SIDE), np.uint8)

    def rollout(self) -> Rollout:
        """The next trajectory."""
        frames = np.concatenate([self.seen, self._frames(HORIZON)])
        stacks = np.stack([frames[k : k + STACK] for k in range(HORIZON + 1)])
        first = self.trajectories * HORIZON
        self.trajectories += 1
        over = self.trajectories % EPISODE == 0
        self.seen = self._first() if over else stacks[-1]
        return make_rollout(
            [HORIZON],
            [stacks[:-1]],
            numbers=np.arange(first, first + HORIZON),
            discrete=np.zeros((HORIZON, 1), np.int32),
            next_obs=[stacks[-1:]],
            done_reached=np.array([over]),
            next_numbers=np.array([first + HORIZON]),
        )


def milliseconds(call: Callable[[], object], times: int) -> tuple[float, float]:
    """The median and the best of some calls."""
    spent = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        spent.append(1e3 * (time.perf_counter() - start))
    return statistics.median(spent), min(spent)


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def fill(steps: int) -> Replay:
    """A full replay, and what it took."""
    layout = ReplayLayout.of(SPEC, steps, 1, longest=HORIZON)
    agent, before = NoisyAgent(), resident()
    replay, spent = Replay(layout), 0.0
    for _ in range(steps // HORIZON + 64):
        rollout = agent.rollout()
        start = time.perf_counter()
        replay.append(rollout, np.zeros((HORIZON, 1), np.float32))
        spent += time.perf_counter() - start
    del rollout
    gc.collect()
    held = resident() - before
    share = held / layout.nbytes()
    print(
        f"{len(replay):,} steps: {size_text(held)} of memory, {share - 1:+.1%} of the predicted "
        f"{size_text(layout.nbytes())}; {1e6 * spent / (agent.trajectories * HORIZON):.0f} us to append one",
        flush=True,
    )
    return replay


def draw(replay: Replay, batch: int, n_step: int) -> None:
    """Print how long a batch takes."""
    sampler = ReplaySampler([0.99], [False], torch.device("cpu"), 0, n_step)
    sampler.batch(replay, batch)
    median, best = milliseconds(lambda: sampler.batch(replay, batch), 200)
    print(f"a batch of {batch}, {n_step}-step returns: {median:.2f} ms (best {best:.2f})", flush=True)


def save_and_load(replay: Replay, folder: Path) -> None:
    """Print how long that takes."""
    start = time.perf_counter()
    assert save_replay("benchmark", folder, replay, 0)
    saved = time.perf_counter()
    assert load_replay("benchmark", folder, Replay(replay.layout), 0) is not None
    print(f"saved in {saved - start:.1f} s, loaded in {time.perf_counter() - saved:.1f} s", flush=True)


def main() -> None:
    """Run as the module says."""
    options = parse_options(
        __doc__,
        steps={"default": 100_000, "help": "that the replay holds"},
        batch={"default": 256, "help": "steps sampled at once"},
        file={"default": None, "type": Path, "help": "a folder to save into and load from"},
    )
    torch.set_num_threads(1)
    replay = fill(options.steps)
    for n_step in (1, 3):
        draw(replay, options.batch, n_step)
    if options.file is not None:
        save_and_load(replay, options.file)


if __name__ == "__main__":
    main()
