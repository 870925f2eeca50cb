"""What a replay will take is said before, and refused where it cannot fit."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import numpy as np
import pytest
from lanista.trainers.buffers.replay import memory_limit as memory
from lanista.trainers.buffers.replay.buffer import Replay
from lanista.trainers.buffers.replay.columns import ReplayLayout
from lanista.trainers.buffers.replay.frame_stacks import stack_sizes
from lanista.trainers.buffers.replay.memory_limit import check_memory, size_text
from lanista.trainers.utils.errors import TrainerError
from mlagents_envs.base_env import BehaviorSpec
from replay_steps import layout
from specs import spec_of_shapes

PLAIN = spec_of_shapes([(4, 84, 84)], branches=(6,))
STACKED = PLAIN.observation_specs[0]._replace(name="StackingSensor_size4_Camera")
SEER = BehaviorSpec([STACKED], PLAIN.action_spec)


def arrays_of(replay):
    return [kept.array for kept in replay.saved_rows().values()]


@pytest.mark.parametrize("stacks", [1, 3])
def test_the_estimate_equals_the_size_of_the_arrays(stacks):
    shape = layout(50_000, stacks=stacks, prioritized=True)
    replay = Replay(shape, 0.6)
    held = sum(array.nbytes for array in arrays_of(replay)) + replay.priorities.tree.leaves.nbytes
    assert held == shape.nbytes()


def test_a_stack_of_four_costs_one_frame():
    shape = ReplayLayout.of(SEER, 1_000_000, 1)
    assert 1.0 < shape.nbytes() / (1_000_000 * 84 * 84) < 1.06
    assert ReplayLayout.of(PLAIN, 1_000_000, 1).nbytes() > 3.8 * shape.nbytes()


def test_it_is_said_at_the_start(caplog):
    with caplog.at_level(logging.INFO):
        check_memory("Seer", ReplayLayout.of(SEER, 10_000, 1))
    assert "Seer: the replay will take 78.2 MB" in caplog.text
    assert "StackingSensor_size4_Camera" in caplog.text


def given(monkeypatch, folder, files):
    """A machine of much memory, or with as much as "available" says, and these files of the kernel."""
    memory_left = files.pop("available", 99_000_000_000)
    monkeypatch.setattr(memory.psutil, "virtual_memory", lambda: SimpleNamespace(available=memory_left))
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr(memory, "_PROC", folder)
    monkeypatch.setattr(memory, "_CGROUP", folder)


@pytest.mark.parametrize(
    ("files", "culprit"),
    [
        ({"available": 2_000_000_000}, "the machine"),
        ({"memory.max": "5000000000", "memory.current": "3000000000"}, "the container"),
        ({"memory/memory.limit_in_bytes": "2000", "memory/memory.usage_in_bytes": "1000"}, "the container"),
    ],
)
def test_a_replay_that_cannot_fit_is_refused_with_the_sizes(monkeypatch, tmp_path, files, culprit):
    given(monkeypatch, tmp_path, files)
    with pytest.raises(
        TrainerError, match=rf"1,000,000 steps .* takes 7.*GB .*{culprit}.*buffer_size to at most"
    ):
        check_memory("Seer", ReplayLayout.of(SEER, 1_000_000, 1))


@pytest.mark.parametrize(
    "files",
    [
        {
            "memory.max": "9000000000",
            "memory.current": "8900000000",
            "memory.stat": "anon 400000000\ninactive_file 5500000000\nactive_file 3000000000",
        },
        {
            "memory/memory.limit_in_bytes": "9000000000",
            "memory/memory.usage_in_bytes": "8900000000",
            "memory/memory.stat": "file 1\ntotal_inactive_file 5500000000\ntotal_active_file 3000000000",
        },
    ],
    ids=["v2", "v1"],
)
def test_the_page_cache_of_a_container_counts_as_free(monkeypatch, tmp_path, files):
    """Whoever has read a large file in a container would else be refused: the kernel counts its cache too."""
    given(monkeypatch, tmp_path, files)
    assert check_memory("Seer", ReplayLayout.of(SEER, 1_000_000, 1)) > 7e9


@pytest.mark.parametrize(
    "files",
    [
        {"self/cgroup": "0::/jobs/7/step\n", "jobs/7/memory.max": "5000000000", "jobs/7/memory.current": "9"},
        {
            "self/cgroup": "12:cpu,cpuacct:/\n4:memory:/jobs/7\n1:name=systemd:/x\n",
            "memory/jobs/7/memory.limit_in_bytes": "5000000000",
            "memory/jobs/7/memory.usage_in_bytes": "9",
        },
    ],
    ids=["v2", "v1"],
)
def test_a_job_s_own_limit_counts_too(monkeypatch, tmp_path, files):
    """A batch system gives each job a cgroup below the machine's, which has no limit itself."""
    given(monkeypatch, tmp_path, files)
    with pytest.raises(TrainerError, match=r"the container .its cgroup. leaves 5 GB"):
        check_memory("Seer", ReplayLayout.of(SEER, 1_000_000, 1))


def test_ranks_share_the_memory_of_their_machine(monkeypatch, tmp_path):
    """Each takes its part of the buffer, and all at the same time."""
    given(monkeypatch, tmp_path, {"available": 10_000_000_000})
    seen = ReplayLayout.of(SEER, 1_000_000, 1)
    assert check_memory("Seer", seen) > 7e9
    monkeypatch.setattr(memory.distributed, "local_size", lambda: 2)
    with pytest.raises(TrainerError, match="the machine leaves 5 GB"):
        check_memory("Seer", seen)


def test_no_limit_is_no_refusal(monkeypatch, tmp_path):
    given(monkeypatch, tmp_path, {"memory.max": "max", "memory.current": "12"})
    assert check_memory("Seer", ReplayLayout.of(SEER, 1_000_000, 1)) > 7e9


def test_an_empty_replay_takes_no_memory_yet():
    resident = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096  # noqa: E731, SIM115
    before = resident()
    replay = Replay(ReplayLayout.of(SEER, 100_000, 1))
    assert resident() - before < 0.1 * replay.layout.nbytes()


@pytest.mark.parametrize(
    ("name", "shape", "given", "expected"),
    [
        ("StackingSensor_size4_CameraSensor", (4, 84, 84), 1, 4),
        ("StackingSensor_size3_CameraSensor", (9, 84, 84), 1, 3),
        ("StackingSensor_size3_CameraSensor", (4, 84, 84), 1, 1),
        ("StackingSensor_size3_VectorSensor", (24,), 1, 1),
        ("CameraSensor", (4, 84, 84), 1, 1),
        ("CameraSensor", (4, 84, 84), 4, 4),
        ("StackingSensor_size2_CameraSensor", (4, 84, 84), 4, 2),
    ],
)
def test_which_observations_are_stacks(name, shape, given, expected):
    assert stack_sizes([name], [shape], given) == [expected]


def test_texts_of_sizes():
    assert [size_text(n) for n in (7.28e9, 4.2e7, 3000, 528)] == ["7.28 GB", "42 MB", "3 kB", "528 bytes"]
    assert np.isclose(float(size_text(7.283e9).split()[0]), 7.28)
