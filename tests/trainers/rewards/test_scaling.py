"""Rewards are divided by the deviation of the discounted return, which each agent has of its own."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lanista.trainers.networks.modules.normalizer import SharedMoments
from lanista.trainers.rewards.scaling import RewardScaler
from replay_steps import Game, rollout_of
from two_ranks import together


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
        calls.append(game.trajectory(0, 1 + k, "on" if k % 4 else "over"))  # twice the same agent
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


@pytest.mark.parametrize("strength", [0.0, 0.02, 1.0, 5.0])
def test_returns_are_those_before_the_strength(strength):
    game = Game(np.random.default_rng(0), signals=1)
    rollout, rewards = rollout_of([game.trajectory(0, 9, "over")])
    given = RewardScaler((0.9,))
    given.update(rollout, rewards)
    scale = RewardScaler((0.9,), [strength])
    scale.update(rollout, rewards * np.float32(strength))
    expected = given.deviation() if strength else np.sqrt([1e-8])
    np.testing.assert_allclose(scale.deviation(), expected, rtol=1e-5)


def test_several_ranks_count_together_also_before_any_reward(tmp_path):
    ones = SimpleNamespace(agents=[None], lengths=np.array([6]), episode_over=np.array([True]))
    rewards = np.random.default_rng(2).normal(3, 2, (3, 2, 6, 1)).astype(np.float32)

    def counted(own):
        scale = RewardScaler((0.0,))
        shared = SharedMoments([scale])
        shared.merge()
        for some in rewards[:, own]:
            for one in some:
                scale.update(ones, one)
            shared.merge()
        return torch.cat([scale.steps.reshape(1), scale.mean, scale.squares])

    ranks = together(tmp_path, lambda rank: counted(slice(rank, rank + 1)))
    assert torch.equal(*ranks)
    torch.testing.assert_close(ranks[0], counted(slice(None)))


def test_it_is_saved():
    scale, again = RewardScaler((0.9,)), RewardScaler((0.9,))
    game = Game(np.random.default_rng(0), signals=1)
    scale.update(*rollout_of([game.trajectory(0, 9, "over")]))
    again.load_state_dict(scale.state_dict())
    assert again.deviation().tobytes() == scale.deviation().tobytes()
