"""A group's return is what it was paid while any of its members lived, once, however many were told."""

import numpy as np
from lanista.trainers.runner.evaluation.scores import GroupReturns
from mlagents_envs.base_env import DecisionSteps, TerminalSteps


def steps(*agents):
    """Agents as (id, group, group reward)."""
    ids, groups, rewards = (np.array(column) for column in zip(*agents)) if agents else ([], [], [])
    return (
        [np.zeros((len(agents), 1), np.float32)],
        np.zeros(len(agents), np.float32),
        np.array(ids, np.int32),
        np.array(groups, np.int32),
        np.array(rewards, np.float32),
    )


def decisions(*agents):
    obs, reward, ids, groups, rewards = steps(*agents)
    return DecisionSteps(obs, reward, ids, None, groups, rewards)


def terminals(*agents):
    obs, reward, ids, groups, rewards = steps(*agents)
    return TerminalSteps(obs, reward, np.zeros(len(ids), bool), ids, groups, rewards)


def test_a_group_is_paid_once_and_ends_with_its_last_member():
    groups = GroupReturns()
    groups.add(decisions((1, 7, 0.0), (2, 7, 0.0)), terminals(), counting=True)
    groups.add(decisions((2, 7, 0.5)), terminals((1, 7, 0.5)), counting=True)
    assert groups.running and not groups.finished
    groups.add(decisions(), terminals((2, 7, 1.0)), counting=True)
    assert groups.finished == [1.5] and not groups.running


def test_a_group_that_begins_anew_in_the_step_in_which_it_ends_earns_apart():
    groups = GroupReturns()
    groups.add(decisions((1, 7, 0.0)), terminals(), counting=True)
    groups.add(decisions((1, 7, 0.0)), terminals((1, 7, 2.0)), counting=True)
    assert groups.finished == [2.0]
    groups.add(decisions((1, 7, -1.0)), terminals(), counting=False)
    groups.add(decisions(), terminals((1, 7, 0.0)), counting=False)
    assert groups.finished == [2.0, -1.0]


def test_who_joins_late_was_not_paid_before_and_agents_alone_are_no_group():
    groups = GroupReturns()
    groups.add(decisions((1, 7, 0.0), (9, 0, 5.0)), terminals(), counting=True)
    groups.add(decisions((1, 7, 1.0), (2, 7, 4.0)), terminals(), counting=True)
    groups.add(decisions(), terminals((1, 7, -3.0), (2, 7, 1.0)), counting=True)
    assert groups.finished == [-2.0]


def test_groups_that_begin_behind_the_counted_episodes_do_not_count():
    groups = GroupReturns()
    groups.add(decisions((1, 7, 0.0)), terminals(), counting=False)
    groups.add(decisions(), terminals((1, 7, 3.0)), counting=True)
    assert groups.finished == [] and not groups.running


def test_a_member_that_leaves_its_group_does_not_keep_it_running():
    """Unregistered before it ends, as Unity reports with group 0, or moved to another group."""
    groups = GroupReturns()
    groups.add(decisions((1, 7, 0.0), (2, 7, 0.0)), terminals(), counting=True)
    groups.add(decisions((2, 7, 1.0)), terminals((1, 0, 0.0)), counting=True)
    groups.add(decisions((2, 8, 4.0)), terminals(), counting=True)
    assert groups.finished == [1.0] and groups.running
    groups.add(decisions((3, 7, 9.0)), terminals((2, 8, 2.0)), counting=True)
    assert groups.finished == [1.0, 2.0]
    groups.add(decisions(), terminals((3, 0, 0.0)), counting=True)
    assert groups.finished == [1.0, 2.0, 0.0] and not groups.running
