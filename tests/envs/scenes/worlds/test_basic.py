"""The rules of Basic."""

import numpy as np
import pytest
from lanista.envs.scenes.worlds.basic import Basic
from scene_play import ScenePlay

STAY, LEFT, RIGHT = 0, 1, 2


class Play(ScenePlay):
    scene = Basic


@pytest.mark.parametrize(("move", "position"), [(STAY, 10), (LEFT, 9), (RIGHT, 11)])
def test_a_move_from_the_start_at_ten_costs_a_hundredth(move, position):
    play = Play()
    np.testing.assert_array_equal(play.batch.obs[0], np.eye(20, dtype=np.float32)[[10]])
    batch = play.act(move)
    assert batch.obs[0].argmax() == position
    assert batch.reward[0] == pytest.approx(-0.01)
    assert not batch.done.any() and batch.action_mask is None


@pytest.mark.parametrize(("move", "moves", "value"), [(RIGHT, 7, 0.93), (LEFT, 3, 0.07)])
def test_goals_end_the_episode_and_pay(move, moves, value):
    play = Play()
    batches = [play.act(move) for _ in range(moves)]
    assert sum(float(batch.reward[0]) for batch in batches) == pytest.approx(value)
    batch = batches[-1]
    np.testing.assert_array_equal(batch.done, [True, False])
    assert not batch.interrupted.any()
    np.testing.assert_array_equal(batch.obs[0].argmax(axis=1), [17 if move == RIGHT else 7, 10])
    assert batch.reward[1] == 0


def test_each_episode_has_an_agent_of_its_own():
    play = Play()
    seen = [0]
    assert play.batch.agent_id.tolist() == seen
    for _ in range(3):
        for _ in range(3):
            play.act(LEFT)
        ended, began = play.batch.agent_id
        assert ended == seen[-1]
        seen.append(int(began))
    assert len(set(seen)) == 4


def test_areas_are_independent():
    play = Play(areas=3)
    for _ in range(3):
        batch = play.act([LEFT, RIGHT, STAY])
    np.testing.assert_array_equal(batch.obs[0].argmax(axis=1), [7, 10, 13, 10])
    np.testing.assert_array_equal(batch.agent_id, [0, 3, 1, 2])
