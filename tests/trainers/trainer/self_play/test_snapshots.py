"""Pools of snapshots are saved and read back, whatever window they then have."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lanista.trainers.settings.models.behavior import SelfPlaySettings
from lanista.trainers.trainer.self_play.self_play import SeededRandom, SelfPlay
from lanista.trainers.trainer.self_play.snapshots import NEWEST, Snapshot, SnapshotPool
from lanista.trainers.trainer.self_play.team_rotation import TeamRotation


def filled(window, count):
    pool = SnapshotPool(window, 1200.0)
    for k in range(count):
        pool.ratings[NEWEST] = 1200.0 + k
        pool.save(Snapshot({"w": torch.tensor(k)}))
    return pool


def rated(pool):
    """The snapshots with their ratings, the next to give way first."""
    pairs = [(int(s.weights["w"]), rating) for s, rating in zip(pool.snapshots, pool.ratings)]
    turn = pool.next_slot if len(pairs) == pool.window else 0
    return [*pairs[turn:], *pairs[:turn]]


@given(st.integers(1, 5), st.integers(0, 12), st.integers(1, 7))
def test_another_window_keeps_the_youngest_with_their_ratings(window, count, other):
    pool = filled(window, count)
    state, _ = pool.state_dict({})
    again = SnapshotPool(other, 0.0)
    again.load_state_dict(state)
    assert rated(again) == rated(pool)[-other:]
    assert again.ratings[NEWEST] == pool.ratings[NEWEST] and len(again.ratings) == other + 1
    youngest = Snapshot({"w": torch.tensor(99)})
    again.save(youngest)
    assert youngest in again.snapshots and len(again.snapshots) == min(other, len(rated(pool)[-other:]) + 1)


def test_weights_are_saved_once():
    pool, snapshot = SnapshotPool(3, 1200.0), Snapshot({"w": torch.zeros(2)})
    pool.save(snapshot)
    pool.save(snapshot)
    state, others = pool.state_dict({7: snapshot, 8: Snapshot({"w": torch.ones(2)})})
    assert len(state["weights"]) == 2 and state["slots"] == [0, 0] and others == {7: 0, 8: 1}


class Assigner:
    """Whom the game tells which weights a team plays with."""

    def learn(self, team):
        pass

    def assign(self, team, snapshot):
        pass


def game(window):
    """Self-play of two teams whose newest weights count the calls."""
    drawn = itertools.count()
    settings = SelfPlaySettings(window=window)
    weights = lambda: {"w": torch.tensor(next(drawn))}  # noqa: E731
    play = SelfPlay(settings, TeamRotation(), weights, Assigner(), SeededRandom(0), None)
    play.join(0)
    play.join(1)
    return play


@pytest.mark.parametrize(("opponent", "other"), [(0, 5), (2, 2), (0, 2), (1, 3)])
def test_with_another_window_the_opponent_that_plays_is_the_one_that_is_rated(opponent, other):
    play = game(3)
    for _ in range(4):
        play.on_update()
        play.pool.save(play.newest)
    play.opponent = opponent
    play._assign(1, play.pool.snapshots[opponent])
    again = game(other)
    again.load_state_dict(play.state_dict())
    playing, rated = again.assigned[1], again.pool.snapshots[again.opponent]
    assert int(playing.weights["w"]) == int(play.pool.snapshots[opponent].weights["w"])
    assert rated is playing or playing not in again.pool.snapshots
