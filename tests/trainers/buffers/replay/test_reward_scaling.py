"""Rewards are divided by the deviation of the discounted return, which each agent has of its own."""

import numpy as np
from lanista.trainers.buffers.replay.reward_scaling import RewardScaler
from replay_steps import Game, rollout_of


def returns_by_hand(trajectories, gammas):
    sums, found = {}, []
    for one in trajectories:
        for step in one.steps:
            sums[one.agent] = np.array(gammas) * sums.get(one.agent, 0.0) + step.reward
            found.append(sums[one.agent])
        if one.over:
            del sums[one.agent]
    return np.array(found)


def test_the_deviation_is_that_of_all_returns_so_far():
    game, gammas = Game(np.random.default_rng(0)), (0.9, 0.5)
    scale = RewardScaler(gammas)
    assert scale.deviation().tolist() == [1.0, 1.0]
    trajectories = []
    for k in range(10):
        calls = [game.trajectory(0, 7, "on"), game.trajectory(1, 3, "over" if k % 3 else "interrupted")]
        trajectories += calls
        scale.update(*rollout_of(calls))
    expected = returns_by_hand(trajectories, gammas)
    np.testing.assert_allclose(scale.deviation(), expected.std(axis=0), rtol=1e-5)


def test_a_reset_agent_starts_over():
    scale = RewardScaler((1.0,))
    game = Game(np.random.default_rng(0), signals=1)
    for forget in (False, True, False):
        rollout, _ = rollout_of([game.trajectory(0, 1, "on")])
        scale.update(rollout, np.ones((1, 1), np.float32))
        if forget:
            scale.reset_agents(0, np.array([0], np.int32))
    np.testing.assert_allclose(scale.mean, np.mean([1.0, 2.0, 1.0]))


def test_it_is_saved():
    scale, again = RewardScaler((0.9,)), RewardScaler((0.9,))
    game = Game(np.random.default_rng(0), signals=1)
    scale.update(*rollout_of([game.trajectory(0, 9, "over")]))
    again.load_state_dict(scale.state_dict())
    assert again.deviation().tobytes() == scale.deviation().tobytes()
