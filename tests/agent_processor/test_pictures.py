"""Pictures that come as bytes stay bytes, and each is stored once."""

from collections.abc import Iterator

import numpy as np
import pytest
from lanista.agent_processor.processor import AgentManager
from lanista.agent_processor.rollout import build_rollout, select_trajectories
from lanista.agent_processor.rows import RowStore
from lanista.agent_processor.trajectory import Trajectory
from lanista.envs.base import Decision
from mlagents_envs.base_env import ActionTuple, BehaviorSpec, DecisionSteps, TerminalSteps
from simple_engine import ListSink, vector_spec

CAMERA = (3, 64, 84)
CAMERA_BYTES = 3 * 64 * 84


def batch(kind: type, obs: list[np.ndarray], group: int = 0) -> DecisionSteps | TerminalSteps:
    n = len(obs[0])
    ids, zeros = np.arange(n, dtype=np.int32), np.zeros(n, np.float32)
    groups = np.full(n, group, np.int32)
    if kind is DecisionSteps:
        return DecisionSteps(obs, zeros, ids, None, groups, zeros)
    return TerminalSteps(obs, zeros, np.zeros(n, bool), ids, groups, zeros)


def decided(n: int) -> Decision:
    action = ActionTuple(np.zeros((n, 1), np.float32))
    return Decision(np.arange(n, dtype=np.int32), action, action, np.zeros((n, 1)), np.zeros(n))


def play(
    spec: BehaviorSpec, observations: Iterator[list[np.ndarray]], steps: int, horizon: int, group: int = 0
) -> list[Trajectory]:
    """Agents that decide in every step and end in the last."""
    manager = AgentManager("B?team=0", spec, horizon, ListSink())
    nobody = TerminalSteps.empty(spec)
    for step in range(steps):
        seen = next(observations)
        answer = decided(len(seen[0])) if step else None
        manager.add_experiences(batch(DecisionSteps, seen, group), nobody, 0, answer)
    last = next(observations)
    ends = batch(TerminalSteps, last, group)
    manager.add_experiences(DecisionSteps.empty(spec), ends, 0, decided(len(last[0])))
    return manager.trajectory_queue.drain()


def pictures(agents: int, *shapes: tuple[int, ...], as_floats: bool = False) -> Iterator[list[np.ndarray]]:
    """Of each sensor; those of three dimensions are pictures."""
    rng = np.random.default_rng(0)
    while True:
        seen = [rng.integers(0, 256, (agents, *shape), dtype=np.uint8) for shape in shapes]
        yield [o / np.float32(255) if as_floats or len(shape) == 1 else o for o, shape in zip(seen, shapes)]


def test_trajectories_of_bytes_are_those_of_numbers_times_255() -> None:
    shapes = (4,), (3, 5, 5), (2,), (1, 3, 3)  # 75 and 9 bytes: no whole words
    spec = vector_spec(*shapes, continuous=1)
    found, expected = (
        build_rollout(play(spec, pictures(3, *shapes, as_floats=as_floats), 9, 4, group=1))
        for as_floats in (False, True)
    )
    assert [o.dtype for o in found.obs] == [np.float32, np.uint8, np.float32, np.uint8]
    assert found.next_teammates_obs is not None and expected.next_teammates_obs is not None
    for ours, theirs in (
        (found.obs, expected.obs),
        (found.next_obs, expected.next_obs),
        (found.next_teammates_obs, expected.next_teammates_obs),
    ):
        for a, b in zip(ours, theirs, strict=True):
            assert a.shape == b.shape
            np.testing.assert_array_equal(a / np.float32(255) if a.dtype == np.uint8 else a, b)
    np.testing.assert_array_equal(found.teammates, expected.teammates)
    part = select_trajectories(found, np.arange(len(found.lengths)) % 2 == 0)
    assert [o.dtype for o in part.obs] == [o.dtype for o in found.obs]


def test_a_camera_costs_its_bytes_per_agent_step() -> None:
    """16 KB for 84 x 64 x 3: an observation is stored once, also as the next one of the step before."""
    agents, steps = 8, 319  # with the last ones 2,552 rows: almost ten blocks
    trajectories = play(vector_spec(CAMERA, continuous=1), pictures(agents, CAMERA), steps, horizon=64)
    blocks = {number: block for t in trajectories for number, block in t.blocks.by_number.items()}
    stored = sum(block.words.nbytes + block.flags.nbytes for block in blocks.values())
    taken = sum(map(len, trajectories))
    assert taken == agents * steps
    assert CAMERA_BYTES < stored / taken < 1.05 * CAMERA_BYTES
    gathered = build_rollout(trajectories)
    base = gathered.obs[0]
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert base.nbytes / taken < 1.01 * CAMERA_BYTES


def test_blocks_of_cameras_are_of_the_usual_size() -> None:
    store = RowStore(vector_spec(CAMERA))
    store.begin([np.zeros((1, *CAMERA), np.uint8)], 1)
    assert store.block_rows == 256
    floats = RowStore(vector_spec(CAMERA))
    floats.begin([np.zeros((1, *CAMERA), np.float32)], 1)
    assert floats.block_rows == 64


@pytest.mark.parametrize("first", [np.uint8, np.float32])
def test_bytes_and_numbers_are_never_mixed_in_a_column(first: type) -> None:
    store = RowStore(vector_spec((1, 2, 2)))
    store.begin([np.zeros((1, 1, 2, 2), first)], 1)
    other = np.float32 if first is np.uint8 else np.uint8
    with pytest.raises(ValueError, match=rf"{np.dtype(other)}.*kept as .*{np.dtype(first)}"):
        store.begin([np.zeros((1, 1, 2, 2), other)], 1)
