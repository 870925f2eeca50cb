"""Models that differ by the agents' slots act together, each for the members of its slot."""

import numpy as np
import pytest
from lanista.trainers.policies.onnx.loaded_policy import LoadError
from lanista.trainers.policies.onnx.runtime import SlotPolicies
from mlagents_envs.base_env import ActionTuple, DecisionSteps


class Slot:
    """Chooses its own number."""

    continuous_size, branches, memory_size, has_deterministic = 1, (4,), 0, True

    def __init__(self, number):
        self.number, self.observations = number, {0: (1,)}

    def act(self, steps, deterministic=False, behavior_id=""):
        assert deterministic and len(steps.action_mask[0]) == len(steps)
        return ActionTuple(steps.obs[0] * 10, np.full((len(steps), 1), self.number, np.int32))

    def reset_agents(self, agents, behavior_id=""):
        """Nothing to forget."""


def acted(policy, agents, groups, behavior_id=""):
    """The slots that acted for these agents."""
    n = len(agents)
    steps = DecisionSteps(
        [np.array(agents, np.float32)[:, None]],
        np.zeros(n, np.float32),
        np.array(agents, np.int32),
        [np.zeros((n, 4), bool)],
        np.array(groups, np.int32),
        np.zeros(n, np.float32),
    )
    action = policy.act(steps, True, behavior_id)
    assert action.continuous[:, 0].tolist() == [10.0 * agent for agent in agents], "each its own row"
    return action.discrete[:, 0].tolist()


def test_members_keep_the_lowest_slot_that_was_free():
    policy = SlotPolicies([Slot(number) for number in range(3)])
    assert acted(policy, [5, 6, 7, 8], [1, 2, 1, 0]) == [0, 0, 1, 0]
    assert acted(policy, [7, 5], [1, 1]) == [1, 0]
    policy.reset_agents(np.array([5], np.int32))
    assert acted(policy, [9, 7], [1, 1]) == [2, 1], "the slot of one that has left stays empty"
    policy.reset_agents(np.array([7, 9], np.int32))
    assert acted(policy, [10, 11], [1, 1]) == [0, 1], "the group is over and its number is another one's"
    assert acted(policy, [10, 6], [2, 2]) == [1, 0], "agent 10 has changed its group"


def test_agents_and_groups_of_two_behaviors_may_have_the_same_ids():
    policy = SlotPolicies([Slot(0), Slot(1)])
    for team in ("Team?team=0", "Team?team=1"):
        assert acted(policy, [1, 2], [1, 1], team) == [0, 1]
    policy.reset_agents(np.array([1, 2], np.int32), "Team?team=0")
    assert acted(policy, [2, 1], [1, 1], "Team?team=0") == [0, 1], "its group is over"
    assert acted(policy, [2, 1], [1, 1], "Team?team=1") == [1, 0]


def test_a_group_that_is_too_large_is_refused():
    policy = SlotPolicies([Slot(0), Slot(1)])
    with pytest.raises(LoadError, match="more than 2 members"):
        acted(policy, [1, 2, 3], [1, 1, 1])
