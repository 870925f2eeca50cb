"""What on-policy learning takes of memory is told before, and is about what it takes."""

import logging
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.buffers.columns import SLACK
from lanista.trainers.buffers.replay import memory_limit
from lanista.trainers.buffers.rollout_buffer import EvaluatedSteps, RolloutBuffer
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.trainer import update_memory
from lanista.trainers.trainer.factory import make_algorithm
from lanista.trainers.trainer.update_memory import UpdateMemory, sensor_bytes
from specs import spec_of_shapes

SEER = spec_of_shapes([(3, 64, 84), (5,)], branches=(3,))
ON_POLICY = ("ppo", "poca", "mappo", "coma")

MEASURED = """
import re, sys
import numpy as np
import torch
from lanista.trainers.buffers.rollout_buffer import EvaluatedSteps
from test_update_memory import made, spec_of_shapes

encoder, shape, rows = sys.argv[1], tuple(map(int, sys.argv[2].split("x"))), int(sys.argv[3])
told, algorithm = made("ppo", spec_of_shapes([shape], branches=(3,)), encoder, rows)
torch.set_num_threads(2)

def steps(n):
    zeros, random = lambda *shape: np.zeros(shape, np.float32), np.random.default_rng(0)
    return EvaluatedSteps(
        obs=[random.integers(0, 255, (n, *shape), np.uint8)], continuous=zeros(n, 0), values=zeros(n, 1),
        discrete=np.zeros((n, 1), np.int32), log_probs=zeros(n, 1), action_mask=None,
        returns=random.normal(size=(n, 1)).astype(np.float32),
        advantages=random.normal(size=n).astype(np.float32),
    )

def kilobytes(key):
    return int(re.search(rf"{key}:\\s+(\\d+)", open("/proc/self/status").read())[1])

few, many = steps(rows // 16), steps(rows)
algorithm.hyper = algorithm.hyper.model_copy(update={"batch_size": rows // 16})
algorithm.update(few, 0)
algorithm.hyper = algorithm.hyper.model_copy(update={"batch_size": rows})
before = kilobytes("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
algorithm.update(many, 0)
print(1024 * (kilobytes("VmHWM") - before) / told.minibatch)
"""

RETURNED = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""Lets glibc give back what is freed: what stays is else counted too, and varies by a fifth."""


def made(trainer, spec=SEER, encoder="simple", batch=256, **more):
    settings = RunOptions.from_dict(
        {
            "behaviors": {
                "Seer": {
                    "trainer_type": trainer,
                    "hyperparameters": {"batch_size": batch, "buffer_size": 4 * batch},
                    "network_settings": {"vis_encode_type": encoder},
                    "time_horizon": 10,
                    **more,
                }
            }
        }
    ).behaviors["Seer"]
    algorithm = make_algorithm(spec, settings, torch.device("cpu"), 0, NonFinitePolicy.STOP)
    return UpdateMemory.of(spec, settings, algorithm), algorithm


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read and reset in /proc")
@pytest.mark.parametrize(
    ("encoder", "shape", "rows"),
    [("simple", "3x64x84", 1024), ("nature_cnn", "4x84x84", 512), ("resnet", "3x64x84", 128)],
)
def test_a_minibatch_of_images_takes_about_what_is_told(encoder, shape, rows):
    """Most of it is what convolutions keep for the gradient, many times the images themselves."""
    measured = subprocess.run(
        [sys.executable, "-c", MEASURED, encoder, shape, str(rows)],
        capture_output=True,
        check=True,
        text=True,
        env={
            **os.environ,
            **RETURNED,
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        },
        timeout=300,
    )
    assert 0.75 < float(measured.stdout) < 1.25, measured.stdout


def test_images_count_as_bytes_and_once_but_for_teams():
    assert sensor_bytes(SEER) == [3 * 64 * 84, 4 * 5]
    image = 3 * 64 * 84
    steps = {trainer: made(trainer)[0].step for trainer in ON_POLICY}
    assert image < steps["ppo"] < 1.1 * image and 3 * image < steps["poca"] < 3.1 * image
    assert steps["poca"] == steps["mappo"] == steps["coma"]
    assert made("ppo", threaded=True)[0].step > 1.9 * steps["ppo"], "the next ones are collected meanwhile"
    assert made("ppo")[0].trajectory == pytest.approx(10 * image, rel=0.05)


def part(n):
    """Some steps of what `SEER` observes."""
    return EvaluatedSteps(
        obs=[np.ones((n, 3, 64, 84), np.uint8), np.ones((n, 5), np.float32)],
        continuous=np.zeros((n, 0), np.float32),
        discrete=np.zeros((n, 1), np.int32),
        log_probs=np.zeros((n, 1), np.float32),
        action_mask=np.zeros((n, 3), np.bool_),
        values=np.zeros((n, 1), np.float32),
        returns=np.zeros((n, 1), np.float32),
        advantages=np.zeros(n, np.float32),
    )


def test_a_full_buffer_holds_the_bytes_that_are_told():
    """As NumPy has allocated them, but for what is reserved for images beyond the size, and not touched."""
    told, _ = made("ppo")
    steps = part(64)
    tracemalloc.start()
    try:
        buffer = RolloutBuffer(EvaluatedSteps, told.buffer_size)
        while len(buffer) < told.buffer_size:
            buffer.append(steps)
        allocated, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    sizes = [size for _, size in told.sensors]
    assert [each.nbytes for each in buffer.columns().obs] == sizes
    reserved = (SLACK - 1) * sizes[0]
    assert allocated - reserved == pytest.approx(told.rollout, rel=0.05)
    assert most - reserved < 1.05 * told.rollout, "nothing is copied on the way"


@pytest.mark.parametrize("trainer", ON_POLICY)
def test_what_is_told_grows_with_the_images(trainer):
    small, large = (made(trainer, spec_of_shapes([(3, n, n)], branches=(2,)))[0] for n in (40, 80))
    assert 3 < large.row / small.row < 6 and small.row > 4 * 3 * 40 * 40
    assert small.minibatch == 256 * small.row and small.rollout == 1024 * small.step


def test_the_pass_that_is_asked_changes_nothing():
    told, algorithm = made("ppo")
    state = torch.get_rng_state()
    before = {key: value.clone() for key, value in algorithm.network.state_dict().items()}
    assert update_memory.gradient_bytes([algorithm.network.encoder], apart=False) < told.row
    assert all(torch.equal(value, before[key]) for key, value in algorithm.network.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())
    assert not any(p.grad is not None and p.grad.any() for p in algorithm.network.parameters())


@pytest.mark.parametrize(
    ("collected", "warned"),
    [({"A": 9 * 10**9}, False), ({"A": 4 * 10**9, "B": 10**9}, False), ({"A": 9 * 10**9, "B": 10**9}, True)],
)
def test_behaviors_that_fit_one_by_one_and_not_together_are_warned_of(collected, warned, monkeypatch, caplog):
    monkeypatch.setattr(memory_limit, "least_room", lambda: (6 * 10**9, "the machine"))
    update_memory.warn_of_shortage(collected, 10**6)
    assert ("behaviors A, B have collected" in caplog.text) is warned


@pytest.mark.parametrize(("left", "warned"), [(10**12, False), (10**6, True)])
def test_a_run_that_cannot_work_is_warned_of_with_what_to_do(left, warned, monkeypatch, caplog):
    monkeypatch.setattr(memory_limit, "least_room", lambda: (left, "the machine"))
    with caplog.at_level(logging.INFO):
        made("ppo")[0].report("Seer")
    told, *warnings = [record.getMessage() for record in caplog.records]
    assert told.startswith("Seer: the rollout will take 16") and "a minibatch of 256 steps about" in told
    assert bool(warnings) is warned
    if warned:
        assert "the machine leaves 1 MB" in warnings[0] and "buffer_size to at most about" in warnings[0]
