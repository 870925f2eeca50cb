"""What is kept, and that nothing grows with time."""

import numpy as np
import pytest
from lanista.agent_processor.rollout import build_rollout
from lanista.agent_processor.rows import RowStore
from simple_engine import SimpleEngine, vector_spec


def small(horizon: int) -> SimpleEngine:
    """An engine whose store has small blocks, so that blocks come and go."""
    engine = SimpleEngine(horizon)
    engine.manager._rows = RowStore(engine.spec, block_rows=4)
    return engine


def test_agents_with_ever_new_ids_leak_no_memory() -> None:
    engine = small(horizon=5)
    sizes = []
    for i in range(0, 1200, 4):
        ids = [i, i + 1, i + 2, i + 3]
        for _ in range(3):
            engine.step(ids, group=i + 1)
        engine.step([], end=ids, group=i + 1)
        manager = engine.manager
        sizes.append(
            [
                len(manager._rows.blocks.by_number),
                len(manager._agents),
                manager._agents.open_rows.size,
                manager._groups._table.size,
                len(manager._agents._environments[0].by_id),
                len(manager._groups._by_key),
            ]
        )
    assert max(sizes[10:]) == max(sizes[:10])
    assert sizes[-1][4:] == [0, 0]


def test_an_agent_that_falls_silent_keeps_only_its_own_blocks() -> None:
    engine = small(horizon=1000)
    for _ in range(6):
        engine.step([1, 2], group=7)
    for _ in range(500):
        engine.step([2], group=7)
        engine.step([], end=[2], group=7)
    assert len(engine.manager._rows.blocks.by_number) < 12
    (trajectory,) = engine.step([], end=[1], group=7, answer=False)
    assert len(trajectory) == 6
    assert (trajectory.blocks.columns(trajectory.rows).obs[0] == 1).all()


def test_a_held_trajectory_keeps_its_rows_and_its_teammates_alive() -> None:
    engine = small(horizon=4)
    held = [t for _ in range(5) for t in engine.step([1, 2], group=3)]
    assert len(held) == 2
    before = build_rollout(held)
    for _ in range(300):
        engine.step([1, 2, 3, 4, 5], group=3)
    after = build_rollout(held)
    assert held[0].rows[0] >> 2 not in engine.manager._rows.blocks.by_number
    np.testing.assert_array_equal(after.obs[0], before.obs[0])
    np.testing.assert_array_equal(after.teammates, before.teammates)
    np.testing.assert_array_equal(after.next_teammates_obs, before.next_teammates_obs)


def test_a_forced_reset_forgets_one_environment_only() -> None:
    engine = small(horizon=100)
    for _ in range(3):
        engine.step([1, 2], group=3, env=0)
        engine.step([1, 2], group=3, env=1)
    engine.manager.end_episode(0)
    assert engine.step([1], end=[1, 2], group=3, env=0, answer=False) == []
    ended = engine.step([], end=[1, 2], group=3, env=1)
    assert [(str(t.agent), len(t)) for t in ended] == [("agent_1-1", 3), ("agent_1-2", 3)]


def test_void_agents_are_reset_and_the_others_continue() -> None:
    engine = small(horizon=100)
    for _ in range(3):
        engine.step([1, 2], group=3)
    engine.manager.reset_agents(0, np.array([2, 99], np.int32))
    engine.step([1, 2], group=3)
    ended = engine.step([], end=[1, 2], group=3)
    assert [(t.agent.agent, len(t)) for t in ended] == [(1, 4), (2, 1)]
    mates = ended[0].teammates
    assert mates is not None
    assert (mates >= 0).sum(axis=1).tolist() == [1, 1, 0, 1]


def test_decisions_may_be_answered_in_another_order() -> None:
    engine = small(horizon=100)
    engine.step([1, 2, 3])
    engine.waiting[0] = [3, 1, 2]
    ended = engine.step([], end=[2, 1, 3])
    assert [(t.agent.agent, t.blocks.columns(t.rows).continuous.tolist()) for t in ended] == [
        (i, [[0.5]]) for i in (2, 1, 3)
    ]


def test_a_store_refuses_blocks_of_odd_sizes() -> None:
    with pytest.raises(ValueError, match="power of two"):
        RowStore(vector_spec((3,)), block_rows=3)
    assert RowStore(vector_spec((3, 84, 84))).block_rows == 64
    assert RowStore(vector_spec((1,))).block_rows == 8192


def test_teammates_count_from_their_first_decision_when_an_agent_dies_at_once() -> None:
    engine = small(horizon=100)
    engine.step([1, 2], group=3)
    (died,) = engine.step([2], end=[1], group=3)
    assert died.done_reached and not died.all_group_dones_reached
    assert [obs[0, 0] for obs in build_rollout([died]).next_teammates_obs[0]] == [2]


def test_a_teammate_that_ends_too_or_has_left_the_group_does_not_count() -> None:
    engine = small(horizon=100)
    engine.step([1, 2], group=3)
    both = engine.step([], end=[1, 2], group=3)
    assert [t.all_group_dones_reached for t in both] == [True, True]
    assert [t.counts_group for t in both] == [False, True], "their group ends once"
    engine.step([1, 2], group={1: 3, 2: 0})
    both = engine.step([], end=[1, 2], group={1: 3, 2: 0})
    assert [t.counts_group for t in both] == [True, False], "who has no group is none"
    engine.step([1, 2], group=3)
    engine.step([1, 2], group={1: 3, 2: 4})
    (died,) = engine.step([2], end=[1], group={1: 3, 2: 4})
    assert died.all_group_dones_reached
