"""The book of agents without groups."""

import numpy as np
from lanista.envs.scenes.agents import IndependentAgents


def test_each_is_told_once_what_it_has_earned_since_it_was_told_last():
    agents, obs = IndependentAgents(3), [np.zeros((3, 2), np.float32)]
    agents.add_reward(0.5)
    agents.add_reward(np.array([0, 1.0, 2.0]))
    agents.set_reward(np.array([2]), -1.0)
    (batch,) = agents.request_decisions(obs)
    np.testing.assert_array_equal(batch.reward, [0.5, 1.5, -1])
    np.testing.assert_array_equal(agents.request_decisions(obs)[0].reward, 0)


def test_an_end_is_told_before_the_decisions_and_what_is_earned_after_it_is_the_next_episodes():
    agents, obs = IndependentAgents(2), [np.zeros((2, 1), np.float32)]
    agents.add_reward(1.0)
    agents.end_episodes(np.array([1]), [np.full((1, 1), 7, np.float32)], interrupted=True)
    agents.add_reward(0.25)
    (batch,) = agents.request_decisions(obs)
    np.testing.assert_array_equal(batch.agent_id, [1, 0, 1])
    np.testing.assert_array_equal(batch.done, [True, False, False])
    np.testing.assert_array_equal(batch.interrupted, [True, False, False])
    np.testing.assert_array_equal(batch.reward, [1, 1.25, 0.25])
    np.testing.assert_array_equal(batch.obs[0], [[7], [0], [0]])
    assert not agents.request_decisions(obs)[0].done.any()


def test_a_reset_forgets_rewards_and_ends():
    agents, obs = IndependentAgents(2), [np.zeros((2, 1), np.float32)]
    agents.add_reward(1.0)
    agents.end_episodes(np.array([1]), [np.zeros((1, 1), np.float32)])
    agents.reset()
    (batch,) = agents.request_decisions(obs)
    assert not batch.done.any() and not batch.reward.any()


def test_an_agent_that_changes_its_behavior_ends_under_the_old_and_asks_under_the_new_one():
    agents = IndependentAgents(2, behaviors=2)
    obs = [np.arange(2, dtype=np.float32).reshape(2, 1)]
    agents.end_episodes(np.array([0, 1]), obs)
    agents.behavior[1] = 1
    first, second = agents.request_decisions(obs)
    np.testing.assert_array_equal(first.agent_id, [0, 1, 0])
    np.testing.assert_array_equal(first.done, [True, True, False])
    np.testing.assert_array_equal(second.agent_id, [1])
    np.testing.assert_array_equal(second.obs[0], [[1]])
    assert [asking.tolist() for asking in agents.asking] == [[0], [1]]
