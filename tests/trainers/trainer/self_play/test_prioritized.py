"""Opponents by how hard they are to beat: prioritized fictitious self-play."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lanista.trainers.trainer.self_play.snapshots import (
    Snapshot,
    SnapshotPool,
    WinRecord,
    prioritized_choice,
    records_of,
    restore_records,
)

rates = st.lists(st.floats(0.0, 0.99), min_size=1, max_size=8)


@given(rates)
def test_opponents_are_chosen_in_proportion_to_the_square_of_the_share_that_is_not_won(win_rates):
    weights = (1.0 - np.array(win_rates)) ** 2
    uniform = (np.arange(2000) + 0.5) / 2000
    chosen = [prioritized_choice(win_rates, number) for number in uniform.tolist()]
    found = np.bincount(chosen, minlength=len(win_rates)) / len(chosen)
    np.testing.assert_allclose(found, weights / weights.sum(), atol=1e-3)


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), max_size=300))
def test_a_record_is_the_weighted_share_of_the_last_games_between_a_win_and_a_loss(results):
    record = WinRecord()
    for result in results:
        record.add(result)
    weights = 0.99 ** np.arange(len(results))[::-1]
    expected = (np.sum(weights * results) + 1) / (weights.sum() + 2)
    assert record.win_rate == pytest.approx(expected) and 0 < record.win_rate < 1


def test_records_are_saved_with_the_pool_and_leave_it_with_their_snapshot():
    pool = SnapshotPool(2, 1200.0)
    for k in range(3):
        snapshot = Snapshot({"w": torch.tensor(k)})
        for _ in range(k):
            snapshot.record.add(1.0)
        pool.save(snapshot)
    state, _ = pool.state_dict({})
    again = SnapshotPool(2, 0.0)
    again.load_state_dict(state)
    assert records_of(again.snapshots) == records_of(pool.snapshots) == [[1.99, 1.99], [1.0, 1.0]]
    del state["records"]
    again.load_state_dict(state)
    assert records_of(again.snapshots) == [[0.0, 0.0]] * 2


def test_records_are_restored_one_by_one():
    snapshots = [Snapshot({}), Snapshot({})]
    restore_records(snapshots, [[4.0, 3.0], [2.0, 0.0]])
    assert [snapshot.record.win_rate for snapshot in snapshots] == [4 / 6, 1 / 4]
