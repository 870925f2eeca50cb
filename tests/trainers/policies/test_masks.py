"""A mask that forbids everything in a branch: the agent acts there by chance, and the user is told."""

import logging

import numpy as np
import pytest
import torch
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.networks.modules.distributions import ActionDistribution, Actions, Branches
from lanista.trainers.policies.policy import Policy
from lanista.trainers.settings.models.networks import NetworkSettings
from mlagents_envs.base_env import (
    ActionSpec,
    BehaviorSpec,
    DecisionSteps,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)

SPEC = BehaviorSpec(
    [ObservationSpec((3,), (DimensionProperty.NONE,), ObservationType.DEFAULT, "v")], ActionSpec(0, (2, 4))
)
AGENTS = 400


def policy(deterministic: bool) -> Policy:
    network = ActorCritic(
        SPEC, NetworkSettings(hidden_units=8), ["extrinsic"], generator=torch.Generator().manual_seed(0)
    )
    network.actions.bias.data[:] = torch.tensor([0.0, 5.0, 0.0, 5.0, 0.0, 0.0])
    return Policy(network, SPEC, 1, deterministic=deterministic)


def waiting(shut: int | None) -> DecisionSteps:
    """Agents 100 and on; from the row `shut` on, all actions of the second branch are forbidden."""
    zeros = np.zeros(AGENTS, np.float32)
    mask = [np.zeros((AGENTS, size), np.bool_) for size in (2, 4)]
    mask[0][:, 0] = True
    if shut is not None:
        mask[1][shut:] = True
    ids = np.arange(100, 100 + AGENTS, dtype=np.int32)
    return DecisionSteps([np.zeros((AGENTS, 3), np.float32)], zeros, ids, mask, ids * 0, zeros)


def test_every_action_of_the_branch_is_as_likely(caplog: pytest.LogCaptureFixture) -> None:
    acting = policy(deterministic=False)
    with caplog.at_level(logging.WARNING):
        acting.act([waiting(None)])
        assert not caplog.records
        (decided,) = acting.act([waiting(7)])
        acting.act([waiting(0)])
    (record,) = caplog.records
    assert "Agent 107" in record.message and "all 4 actions of branch 1" in record.message
    assert (decided.action.discrete[:, 0] == 1).all()
    counts = np.bincount(decided.action.discrete[7:, 1], minlength=4)
    assert counts.min() > 60
    np.testing.assert_allclose(decided.log_probs[7:, 1], np.log(0.25), rtol=1e-5)
    assert (decided.action.discrete[:7, 1] == 1).mean() > 0.5, "the others act by their logits"


def test_a_deterministic_policy_takes_the_first() -> None:
    (decided,) = policy(deterministic=True).act([waiting(7)])
    assert (decided.action.discrete[7:, 1] == 0).all()
    assert (decided.action.discrete[:7, 1] == 1).all()


def test_nothing_is_learnt_where_nothing_was_left_to_choose() -> None:
    """A forbidden action's logit is not the network's: whatever was done there says nothing of it."""
    logits = torch.randn(3, 6, generator=torch.Generator().manual_seed(0)).requires_grad_()
    shut = torch.tensor([[False] * 6, [False] * 2 + [True] * 4, [True] * 6])
    none = torch.zeros(3, 0)
    distribution = ActionDistribution(none, torch.zeros(0), logits, Branches((2, 4)), shut)
    log_probs = distribution.log_probs(Actions(none, torch.tensor([[1, 2]] * 3)))
    (log_probs.sum() + distribution.entropy().sum()).backward()
    expected = torch.tensor([0.5, 0.25]).log()
    torch.testing.assert_close(log_probs[1:, 1], expected[1].expand(2))
    torch.testing.assert_close(log_probs[2, 0], expected[0])
    learns = logits.grad != 0
    assert learns.tolist() == [[True] * 6, [True] * 2 + [False] * 4, [False] * 6]
    torch.testing.assert_close(distribution.entropy()[2], -expected.sum(), rtol=1e-4, atol=1e-5)
