"""Rewards, ends and decision requests of agents in groups and on their own."""

import numpy as np
import pytest
from lanista.envs.base import StatsAggregationMethod
from lanista.envs.scenes.parts.agents import AgentGroups, IndependentAgents

SEEN = [np.arange(6, dtype=np.float32).reshape(2, 3, 1)]
"""Of two areas of three: every agent sees its own number."""


@pytest.fixture
def groups():
    made = AgentGroups(2, 3)
    made.reset()
    made.request_decisions(SEEN)
    return made


def leave(groups, area, member):
    groups.remove(np.array([area]), np.array([member]), [SEEN[0][area, member][None]])


def test_a_reward_reaches_all_living_agents_once(groups):
    groups.add_reward(np.array([1.0, 0.0]))
    groups.add_reward(0.25)
    np.testing.assert_allclose(groups.request_decisions(SEEN).group_reward, [1.25] * 3 + [0.25] * 3)
    np.testing.assert_array_equal(groups.request_decisions(SEEN).group_reward, 0)


def test_a_removed_agent_ends_at_once_without_interruption_or_later_rewards(groups):
    groups.add_reward(0.5)
    leave(groups, 0, 1)
    groups.add_reward(2.0)
    batch = groups.request_decisions(SEEN)
    assert batch.agent_id[0] == 1
    np.testing.assert_array_equal(batch.done, [True] + [False] * 5)
    assert not batch.interrupted.any()
    np.testing.assert_allclose(batch.group_reward, [0.5] + [2.5] * 5)
    np.testing.assert_array_equal(batch.obs[0][:, 0], [1, 0, 2, 3, 4, 5])
    np.testing.assert_array_equal(groups.asking, [0, 2, 3, 4, 5])
    np.testing.assert_array_equal(groups.request_decisions(SEEN).agent_id, [0, 2, 3, 4, 5])


@pytest.mark.parametrize("interrupted", [False, True])
def test_an_end_reaches_the_living_and_revives_the_dead_under_new_ids(groups, interrupted):
    leave(groups, 0, 1)
    groups.request_decisions(SEEN)
    groups.add_reward(np.array([3.0, 0.0]))
    groups.end_episodes(np.array([0]), [SEEN[0][:1]], interrupted)
    batch = groups.request_decisions(SEEN)
    np.testing.assert_array_equal(batch.agent_id, [0, 2, 0, 6, 2, 3, 4, 5])
    np.testing.assert_array_equal(batch.done, [True] * 2 + [False] * 6)
    np.testing.assert_array_equal(batch.interrupted, [interrupted] * 2 + [False] * 6)
    np.testing.assert_array_equal(batch.group_id, [1] * 5 + [2] * 3)
    np.testing.assert_allclose(batch.group_reward, [3, 3, 0, 0, 0, 0, 0, 0])


def test_statistics_have_a_groups_return_even_if_no_agent_was_alive_at_the_end(groups):
    groups.add_reward(np.array([1.0, 5.0]))
    for member in range(3):
        leave(groups, 0, member)
    groups.add_reward(np.array([0.5, 0.0]))
    groups.end_episodes(np.array([0]), [SEEN[0][:1]])
    assert groups.take_returns() == [("Environment/Group Return", 1.5, StatsAggregationMethod.AVERAGE)]
    assert groups.take_returns() == []


def test_a_reset_discards_the_ends_and_rewards_of_groups(groups):
    groups.add_reward(1.0)
    leave(groups, 1, 2)
    groups.reset()
    batch = groups.request_decisions(SEEN)
    np.testing.assert_array_equal(batch.agent_id, [0, 1, 2, 3, 4, 6])
    np.testing.assert_array_equal(batch.group_reward, 0)
    assert groups.take_returns() == []


def test_each_reward_since_the_last_decision_is_reported_once():
    agents, obs = IndependentAgents(3), [np.zeros((3, 2), np.float32)]
    agents.add_reward(0.5)
    agents.add_reward(np.array([0, 1.0, 2.0]))
    agents.set_reward(np.array([2]), -1.0)
    (batch,) = agents.request_decisions(obs)
    np.testing.assert_array_equal(batch.reward, [0.5, 1.5, -1])
    np.testing.assert_array_equal(agents.request_decisions(obs)[0].reward, 0)


def test_ends_come_before_decisions_and_later_rewards_belong_to_the_next_episode():
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


def test_a_reset_discards_the_rewards_and_ends_of_independent_agents():
    agents, obs = IndependentAgents(2), [np.zeros((2, 1), np.float32)]
    agents.add_reward(1.0)
    agents.end_episodes(np.array([1]), [np.zeros((1, 1), np.float32)])
    agents.reset()
    (batch,) = agents.request_decisions(obs)
    assert not batch.done.any() and not batch.reward.any()


def test_an_agent_that_changes_its_behavior_ends_under_the_old_and_continues_under_the_new_one():
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
