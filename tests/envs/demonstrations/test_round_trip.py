"""Demonstrations of any behavior are read as they were written."""

from pathlib import Path

import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lanista.envs.demonstrations.demonstration import read_demonstration
from lanista.envs.demonstrations.format import HEADER
from lanista.envs.demonstrations.recorder import DemonstrationWriter, encode_meta
from lanista.envs.errors import DemonstrationError
from lanista.envs.images import as_floats
from lanista.envs.protocol.engine import AgentBatch
from lanista.envs.protocol.messages import DemonstrationMetaProto
from mlagents_envs.base_env import (
    ActionSpec,
    ActionTuple,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)

SHAPES = {(3,): "vector", (0,): "nothing", (4, 2): "set", (3, 5, 6): "colors", (7, 5, 6): "many channels"}


def spec_of(shapes: list[tuple[int, ...]], continuous: int, branches: tuple[int, ...]) -> BehaviorSpec:
    plain = DimensionProperty.NONE
    observations = [
        ObservationSpec(shape, (plain,) * len(shape), ObservationType.DEFAULT, SHAPES[shape])
        for shape in shapes
    ]
    return BehaviorSpec(observations, ActionSpec(continuous, branches))


def batch_of(
    spec: BehaviorSpec, lengths: list[int], as_bytes: bool, seed: int
) -> tuple[AgentBatch, ActionTuple]:
    """Episodes with an agent id each, and with many zeros, which protobuf omits."""
    random = np.random.default_rng(seed)
    n = sum(lengths)

    def floats(*shape: int) -> np.ndarray:
        return (random.normal(size=shape) * random.integers(0, 2, shape)).astype(np.float32)

    obs = [
        random.integers(0, 256, (n, *each.shape), np.uint8)
        if as_bytes and len(each.shape) == 3
        else floats(n, *each.shape)
        for each in spec.observation_specs
    ]
    done = np.zeros(n, bool)
    done[np.cumsum(lengths) - 1] = True
    branches = spec.action_spec.discrete_branches
    batch = AgentBatch(
        *(obs, floats(n), done, done & (random.random(n) < 0.5)),
        np.repeat(random.integers(0, 2**31 - 1, len(lengths)), lengths).astype(np.int32),
        np.repeat(random.integers(0, 3, len(lengths)), lengths).astype(np.int32),
        floats(n),
        random.random((n, sum(branches))) < 0.3 if branches else None,
    )
    discrete = (
        np.array([random.integers(0, size, n) for size in branches], np.int32).reshape(len(branches), n).T
    )
    return batch, ActionTuple(floats(n, spec.action_spec.continuous_size), discrete)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shapes=st.lists(st.sampled_from(list(SHAPES)), min_size=1, max_size=3),
    continuous=st.integers(0, 3),
    branches=st.lists(st.sampled_from([1, 2, 3, 300]), max_size=3).map(tuple),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    as_bytes=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_written_file_is_read_back(
    tmp_path: Path, shapes, continuous, branches, lengths, as_bytes, seed
) -> None:
    spec = spec_of(shapes, continuous, branches)
    batch, action = batch_of(spec, lengths, as_bytes, seed)
    path = tmp_path / "a.demo"
    path.unlink(missing_ok=True)
    with DemonstrationWriter(path, "Any?team=1", spec) as writer:
        writer.write(batch, action)
    for images in ("float32", "uint8"):
        demo = read_demonstration(path, images=images)
        assert (demo.behavior, demo.spec, demo.metadata.episodes) == ("Any?team=1", spec, len(lengths))
        for found, expected in zip(demo.obs, batch.obs, strict=True):
            np.testing.assert_array_equal(as_floats(found), as_floats(expected))
        for name in ("reward", "done", "interrupted", "agent_id", "group_id", "group_reward"):
            np.testing.assert_array_equal(getattr(demo, name), getattr(batch, name), err_msg=name)
        if branches:
            np.testing.assert_array_equal(demo.action_mask, batch.action_mask)
        np.testing.assert_array_equal(demo.continuous, action.continuous)
        np.testing.assert_array_equal(demo.discrete, action.discrete)


@given(name=st.text(max_size=80), steps=st.integers(0, 2**31 - 1), episodes=st.integers(0, 2**31 - 1))
def test_metadata_of_any_name_fit_into_the_header(name: str, steps: int, episodes: int) -> None:
    data = encode_meta(name, steps, episodes, 1e30)
    assert len(data) <= HEADER
    meta = DemonstrationMetaProto.FromString(data[1:])
    assert (meta.number_steps, meta.number_episodes, meta.api_version) == (steps, episodes, 1)
    assert meta.demonstration_name.isascii() and len(meta.demonstration_name) <= 16


def small(path: Path) -> DemonstrationWriter:
    spec = spec_of([(3,)], 1, (2,))
    writer = DemonstrationWriter(path, "B?team=0", spec)
    writer.write(*batch_of(spec, [4, 3], False, 1))
    return writer


def test_an_unfinished_recording_can_be_read(tmp_path: Path) -> None:
    writer = small(tmp_path / "a.demo")
    demo = read_demonstration(tmp_path / "a.demo")  # not closed
    assert len(demo) == 7 and demo.metadata.steps == 0
    writer.close()


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a.demo").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        small(tmp_path / "a.demo")
    assert (tmp_path / "a.demo").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"obs": np.nan}, "pair 5: observation 0 is not finite"),
        ({"reward": np.inf}, "pair 5: a reward is not finite"),
        ({"continuous": np.nan}, "pair 5: a continuous action is not finite"),
        ({"discrete": 2}, "pair 5: an action of branch 0 is not one of its 2"),
    ],
)
def test_invalid_values_are_refused_with_their_byte(change: dict, message: str, tmp_path: Path) -> None:
    spec = spec_of([(3,)], 1, (2,))
    batch, action = batch_of(spec, [4, 4], False, 1)
    arrays = {
        "obs": batch.obs[0],
        "reward": batch.reward,
        "continuous": action.continuous,
        "discrete": action.discrete,
    }
    for name, value in change.items():
        arrays[name][5] = value
    with DemonstrationWriter(tmp_path / "a.demo", "B?team=0", spec) as writer:
        writer.write(batch, action)
    with pytest.raises(DemonstrationError, match=message) as caught:
        read_demonstration(tmp_path / "a.demo")
    assert caught.value.byte is not None and caught.value.byte > HEADER


def test_observations_that_do_not_fit_into_memory_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(tmp_path / "a.demo").close()
    free = psutil.virtual_memory()._replace(available=1)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    with pytest.raises(DemonstrationError, match=r"a\.demo.*take .* GiB, and 0\.0 GiB of memory are free"):
        read_demonstration(tmp_path / "a.demo")


def test_as_bytesafter_the_announced_pairs_are_ignored(tmp_path: Path) -> None:
    """Unity's recorder leaves metadata there."""
    small(tmp_path / "a.demo").close()
    with (tmp_path / "a.demo").open("ab") as file:
        file.write(b"\xff\xff\xff left over")
    assert len(read_demonstration(tmp_path / "a.demo")) == 7
