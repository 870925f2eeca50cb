"""The fused gradient is that of the objective in `PPO.update`, whatever the actions and the network."""

import math

import numpy as np
import pytest
import torch
from goldendata import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.trainers.algorithms.common.optim import FlatParameters
from lanista.trainers.algorithms.fast.ppo import Categorical, FusedPPOGradient, surrogate
from lanista.trainers.algorithms.ppo.losses import ratio_statistics
from lanista.trainers.buffers.rollout_buffer import RolloutBatch
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.settings.models.algorithms import PPOSettings
from lanista.trainers.settings.models.networks import NetworkSettings
from mlagents_envs.base_env import ActionSpec
from ppo_objective import components, ppo_objective, tensor
from specs import vector_spec

ACTIONS = {
    "continuous": ActionSpec(2, ()),
    "branches": ActionSpec(0, (3, 2)),
    "hybrid": ActionSpec(2, (3, 3)),
}


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("widths", [[16], [16, 16, 16], [12, 20]], ids=str)
@pytest.mark.parametrize("keys", [{}, {"ratio": "joint", "value_coefficient": 1.5}], ids=["default", "joint"])
@pytest.mark.parametrize("of_state", [False, True])
def test_it_equals_automatic_differentiation(kind, shared, masked, widths, keys, of_state):
    torch.manual_seed(1)
    hyper = PPOSettings.model_validate(keys)
    action_spec = ACTIONS[kind]
    spec = vector_spec([5, 3], action_spec.continuous_size, action_spec.discrete_branches)
    exploration = {"state_dependent_exploration": {}} if of_state else {}
    network = NetworkSettings(normalize=True, hidden_units=widths, **exploration)
    net = ActorCritic(spec, network, ["extrinsic", "gail"], shared)
    net.actions.log_sigma.data.uniform_(-1, 1)
    flat = FlatParameters(net.parameters())
    rows, width = 32, sum(action_spec.discrete_branches)
    inputs = net.prepare([torch.randn(rows, 5), torch.randn(rows, 3)])
    mask = None
    if masked and width:
        mask = torch.rand(rows, width) < 0.2
        mask[:, [0, 3]] = False
        mask[:4] = True  # nothing is left to choose; all is as likely, and nothing is learned of it
    with torch.no_grad():
        d = net.act(inputs, mask)
        actions = d.sample()
        old = d.log_probs(actions)
        old = old + 0.4 * torch.randn_like(old)
    adv, ret = torch.randn(rows, 1), torch.randn(rows, 2)
    dist, values = net.evaluate(inputs, mask)
    total, policy_loss, value_loss = ppo_objective(
        *(dist.log_probs(actions), old, adv, dist.entropy(), values, ret, 0.2, 0.01), hyper=hyper
    )
    flat.zero_grad()
    total.backward()
    expected = flat.gradient.clone()
    flat.gradient.fill_(7.0)  # what lies there from before must not count
    batch = RolloutBatch(inputs, actions, mask, old, adv, values.detach(), ret)
    policy, value, *_ = FusedPPOGradient(net, hyper)(batch, 0.2, 0.01)
    # Sums of 32-bit numbers, whose order differs from processor to processor.
    torch.testing.assert_close(float(policy), policy_loss.item(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(float(value), value_loss.item(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(flat.gradient, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from([(2, ()), (0, (3,)), (0, (7,)), (0, (3, 2, 4)), (1, (2, 2)), (2, (3, 1))]),
    st.sampled_from(["lstm", "gru"]),
    st.lists(st.integers(1, 5), min_size=1, max_size=6),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["component", "joint"]),
    st.integers(0, 2**16),
)
def test_sequences_are_learned_from_as_by_automatic_differentiation(
    action, kind, lengths, shared, masked, ratio, seed
):
    """Whatever padding, masks, and ratios on both sides of the clipping range's ends."""
    torch.manual_seed(seed)
    hyper = PPOSettings.model_validate({"ratio": ratio})
    continuous, branches = action
    spec, length, sequences = vector_spec([4], continuous, branches), 5, len(lengths)
    memory = {"memory_type": kind, "sequence_length": length, "memory_size": 8}
    network = NetworkSettings.model_validate({"hidden_units": 16, "num_layers": 2, "memory": memory})
    net = ActorCritic(spec, network, ["extrinsic", "gail"], shared)
    flat = FlatParameters(net.parameters())
    flat.vector.data.add_(0.2 * torch.randn_like(flat.vector))
    rows, width = sequences * length, sum(branches)
    inputs, states = net.prepare([torch.randn(rows, 4)]), 0.5 * torch.randn(2, sequences, 8)
    real = (torch.arange(length) < torch.tensor(lengths)[:, None]).flatten()
    mask = torch.rand(rows, width) < 0.4 if masked and width else None
    with torch.no_grad():
        distribution, _ = net.evaluate_with_memory(inputs, states[0], states[1], length, mask)
        actions = distribution.sample()
        now = distribution.log_probs(actions)
        edges = [math.log(1.0 + side * 0.2) + near for side in (1, -1) for near in (1e-3, -1e-3)]
        offsets = torch.tensor([0.0, 0.5, -0.5, *edges])
        old = now - offsets[torch.randint(len(offsets), now.shape)]
    advantages, returns = torch.randn(rows, 1), torch.randn(rows, 2)
    distribution, values = net.evaluate_with_memory(inputs, states[0], states[1], length, mask)
    total, policy_loss, value_loss = ppo_objective(
        *(distribution.log_probs(actions), old, advantages, distribution.entropy()),
        *(values, returns, 0.2, 0.01, real, hyper),
    )
    flat.zero_grad()
    total.backward()
    expected = flat.gradient.clone()
    flat.gradient.fill_(7.0)
    columns = (inputs, actions, mask, old, advantages, values.detach(), returns, real, None, *states, length)
    policy, value, *_ = FusedPPOGradient(net, hyper)(RolloutBatch(*columns), 0.2, 0.01)
    torch.testing.assert_close(float(policy), policy_loss.item(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(float(value), value_loss.item(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(flat.gradient, expected, rtol=1e-3, atol=1e-5)


def whole(case):
    """Whether every row counts; the fused gradient leaves out all others beforehand."""
    return all(mask == 1.0 for mask in case["inputs"]["loss_mask"])


@pytest.mark.parametrize("xp", [np, torch], ids=["numpy", "torch"])
@pytest.mark.parametrize("case", cases("losses", "ppo_update", where=whole))
def test_the_surrogate_and_its_gradient_are_the_reference_s(case, xp):
    given, expected = case["inputs"], case["expected"]

    def as_array(column):
        return column.numpy() if xp is np else column

    now = as_array(components(given, "log_probs_continuous", "log_probs_discrete_per_branch"))
    old = as_array(components(given, "old_log_probs_continuous", "old_log_probs_discrete"))
    stats = expected["stats"]
    advantages = as_array(tensor(given["advantages"]).unsqueeze(1))
    loss, kl, fraction, gradient = surrogate(xp, now, old, advantages, stats["Policy/Epsilon"])
    assert abs(loss.item()) == pytest.approx(stats["Losses/Policy Loss"], rel=1e-5, abs=1e-6)
    log_ratio = torch.as_tensor(now - old)
    moved = ratio_statistics(log_ratio, log_ratio.exp(), stats["Policy/Epsilon"])
    np.testing.assert_allclose([float(kl), float(fraction)], moved, rtol=1e-4, atol=1e-5)
    gradients = {**expected["gradients"], "advantages": given["advantages"]}
    wanted = components(gradients, "log_probs_continuous", "log_probs_discrete_per_branch")
    np.testing.assert_allclose(gradient, wanted, rtol=1e-5, atol=1e-6)


def test_branches_are_differentiated_alike_by_numpy_and_torch():
    logits, chosen = torch.randn(4, 2 * 6), torch.randint(2, (6, 2))
    logits[2:, 1::2] = -math.inf
    d_log_probs = torch.randn(6, 2)
    ours = Categorical(torch, logits, chosen)
    theirs = Categorical(np, logits.numpy(), chosen.numpy())
    np.testing.assert_allclose(ours.log_probs, theirs.log_probs, rtol=1e-5)
    wanted = theirs.gradient(d_log_probs.numpy(), -0.01)
    np.testing.assert_allclose(ours.gradient(d_log_probs, -0.01), wanted, rtol=1e-4, atol=1e-6)
