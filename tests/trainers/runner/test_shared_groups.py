"""A group of agents with different behaviors is reported once."""

import logging

import numpy as np
import pytest
from lanista.envs.base import EnvironmentStep
from lanista.envs.manager.specs import SharedGroups
from mlagents_envs.base_env import DecisionSteps, TerminalSteps
from specs import vector_spec

SPEC = vector_spec([1], continuous=1)


def step(env=0, **groups):
    """Behaviors by name, with the group ids of their agents."""
    batches = {}
    for name, ids in groups.items():
        n = len(ids)
        zeros = np.zeros(n, np.float32)
        decisions = DecisionSteps(
            [np.zeros((n, 1), np.float32)], zeros, np.arange(n), None, np.array(ids, np.int32), zeros
        )
        batches[name] = (decisions, TerminalSteps.empty(SPEC))
    return EnvironmentStep(env=env, steps=batches, decisions={}, statistics={})


@pytest.mark.parametrize(
    ("groups", "shared"),
    [
        ({"A": [1, 1, 2], "B": [2, 3]}, True),
        ({"A": [1, 1], "B": [2, 2]}, False),
        ({"A": [0, 0], "B": [0, 0]}, False),
        ({"A": [1, 2]}, False),
    ],
)
def test_a_shared_group_is_reported_once(caplog, groups, shared):
    look = SharedGroups()
    with caplog.at_level(logging.WARNING):
        for _ in range(9):
            look.check(step(**groups))
    assert len(caplog.records) == shared
    if shared:
        assert "Environment 0: the group 2 has agents of A and of B." in caplog.text


def test_a_group_that_becomes_shared_later_is_reported(caplog):
    look = SharedGroups()
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            look.check(step(A=[1], B=[2]))
        assert not caplog.records
        for _ in range(5):
            look.check(step(A=[1], B=[1]))
    assert len(caplog.records) == 1
