"""The rules of Basic."""

import numpy as np
import pytest
from lanista.envs.scenes.world import Parameters
from lanista.envs.scenes.worlds.basic import BEHAVIOR, Basic

STAY, LEFT, RIGHT = 0, 1, 2


def start(areas=1) -> tuple[Basic, object]:
    world = Basic(areas)
    return world, world.reset(np.random.default_rng(0), Parameters())[BEHAVIOR]


def act(world, *moves):
    discrete = np.int32(moves)[:, None]
    return world.step({BEHAVIOR: (np.zeros((len(moves), 0), np.float32), discrete)})[BEHAVIOR]


@pytest.mark.parametrize(("move", "position"), [(STAY, 10), (LEFT, 9), (RIGHT, 11)])
def test_a_move_from_the_start_at_ten_costs_a_hundredth(move, position):
    world, batch = start()
    np.testing.assert_array_equal(batch.obs[0], np.eye(20, dtype=np.float32)[[10]])
    batch = act(world, move)
    assert batch.obs[0].argmax() == position
    assert batch.reward[0] == pytest.approx(-0.01)
    assert not batch.done.any() and batch.action_mask is None


@pytest.mark.parametrize(("move", "moves", "value"), [(RIGHT, 7, 0.93), (LEFT, 3, 0.07)])
def test_goals_end_the_episode_and_pay(move, moves, value):
    world, batch = start()
    earned = 0.0
    for _ in range(moves):
        batch = act(world, move)
        earned += float(batch.reward[0])
    assert earned == pytest.approx(value)
    np.testing.assert_array_equal(batch.done, [True, False])
    assert not batch.interrupted.any()
    np.testing.assert_array_equal(batch.obs[0].argmax(axis=1), [17 if move == RIGHT else 7, 10])
    assert batch.reward[1] == 0


def test_each_episode_is_another_agents():
    world, batch = start()
    seen = [int(batch.agent_id[0])]
    assert seen == [0]
    for _ in range(3):
        for _ in range(3):
            batch = act(world, LEFT)
        ended, began = batch.agent_id
        assert ended == seen[-1]
        seen.append(int(began))
    assert len(set(seen)) == 4


def test_areas_are_independent():
    world, _ = start(areas=3)
    for _ in range(3):
        batch = act(world, LEFT, RIGHT, STAY)
    np.testing.assert_array_equal(batch.obs[0].argmax(axis=1), [7, 10, 13, 10])
    np.testing.assert_array_equal(batch.agent_id, [0, 3, 1, 2])
