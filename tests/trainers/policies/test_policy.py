"""Acting is the network's and the distributions' own result, in fewer calls."""

import logging

import numpy as np
import pytest
import torch
from lanista.trainers.algorithms.common.optim import FlatAdam, FlatParameters
from lanista.trainers.networks.actor import Actor
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.networks.modules.distributions import ActionDistribution, Actions, Branches
from lanista.trainers.policies.policy import Policy
from lanista.trainers.settings.models.networks import NetworkSettings
from mlagents_envs.base_env import ActionSpec, DecisionSteps
from policysteps import decisions, random_obs
from specs import vector_spec

SIZES = (5, 3)
ACTIONS = {"continuous": ActionSpec(2, ()), "branches": ActionSpec(0, (3, 2)), "hybrid": ActionSpec(2, (3,))}
AGENTS = 7


def network(actions: ActionSpec, *, normalize: bool = True, shared: bool = False) -> ActorCritic:
    settings = NetworkSettings(normalize=normalize, hidden_units=16, num_layers=2)
    spec = vector_spec(SIZES, actions.continuous_size, actions.discrete_branches)
    made = ActorCritic(spec, settings, ["extrinsic"], shared)
    made.actions.log_sigma.data.uniform_(-1, 1)
    return made


def waiting(actions: ActionSpec) -> DecisionSteps:
    random = np.random.default_rng(0)
    mask = [random.random((AGENTS, n)) < 0.3 for n in actions.discrete_branches]
    for branch in mask:
        branch[:, 0] = False
    return decisions([4 * rows for rows in random_obs([(n,) for n in SIZES], AGENTS)], mask=mask or None)


def expected(net: ActorCritic, steps: DecisionSteps, generator: torch.Generator, deterministic: bool):
    mask = None if steps.action_mask is None else torch.from_numpy(np.concatenate(steps.action_mask, axis=1))
    with torch.no_grad():
        distribution = net.act(net.prepare([torch.from_numpy(o) for o in steps.obs]), mask)
        actions = distribution.deterministic() if deterministic else distribution.sample(generator)
        return (
            actions.continuous,
            actions.discrete.int(),
            distribution.to_engine(actions.continuous),
            distribution.log_probs(actions),
            distribution.entropy(),
        )


def check(policy: Policy, net: ActorCritic, steps: DecisionSteps) -> None:
    generator = torch.Generator()
    generator.set_state(policy.generator.get_state())
    (found,) = policy.act([steps])
    wanted = expected(net, steps, generator, policy.deterministic)
    got = (found.action.continuous, found.action.discrete, found.env_action.continuous)
    for part, array in zip(wanted, (*got, found.log_probs, found.entropy), strict=True):
        torch.testing.assert_close(torch.from_numpy(array.copy()), part, rtol=1e-5, atol=1e-6)
    assert torch.equal(policy.generator.get_state(), generator.get_state())
    assert found.action.continuous.shape == (AGENTS, net.spec.action_spec.continuous_size)
    assert found.env_action.discrete.dtype == np.int32


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_decisions_are_those_of_network_and_distribution(kind, deterministic, normalize, shared):
    net = network(ACTIONS[kind], normalize=normalize, shared=shared)
    steps = waiting(ACTIONS[kind])
    net.update_normalization([torch.from_numpy(o) for o in steps.obs])
    check(Policy(net, net.spec, seed=1, deterministic=deterministic), net, steps)


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize("deterministic", [False, True])
def test_deviations_of_the_state_and_squashed_actions_are_the_networks_own(kind, deterministic):
    actions = ACTIONS[kind]
    spec = vector_spec(SIZES, actions.continuous_size, actions.discrete_branches)
    chosen = NetworkSettings(normalize=True, hidden_units=16, num_layers=2)
    net = Actor(spec, chosen, squashed=True, sigma_of_state=True)
    steps = waiting(actions)
    net.update_normalization([torch.from_numpy(o) for o in steps.obs])
    check(Policy(net.requires_grad_(False), spec, seed=1, deterministic=deterministic), net, steps)


def test_it_follows_whatever_changes_the_network():
    net = network(ACTIONS["continuous"])
    flat = FlatParameters(net.parameters())  # as a trainer does before there is a policy
    policy, steps = Policy(net, net.spec, seed=1), waiting(ACTIONS["continuous"])
    net.update_normalization([torch.from_numpy(o) for o in steps.obs])
    check(policy, net, steps)
    flat.gradient.normal_()
    FlatAdam(flat, 0.1).step()
    check(policy, net, steps)
    net.load_state_dict(network(ACTIONS["continuous"]).state_dict())
    check(policy, net, steps)


def test_decisions_do_not_change_with_the_next_ones():
    net = network(ACTIONS["continuous"])
    policy, steps = Policy(net, net.spec, seed=1), waiting(ACTIONS["continuous"])
    (first,) = policy.act([steps])
    kept = first.action.continuous.copy(), first.log_probs.copy()
    policy.act([steps])
    np.testing.assert_array_equal(first.action.continuous, kept[0])
    np.testing.assert_array_equal(first.log_probs, kept[1])


@pytest.mark.parametrize("kind", ACTIONS)
def test_numbers_that_are_none_are_not_acted_upon(kind: str) -> None:
    net = network(ACTIONS[kind])
    policy = Policy(net, net.spec, seed=0)
    steps = waiting(ACTIONS[kind])
    policy.act([steps])
    with torch.no_grad():
        net.actions.bias[-1] = float("nan")
    steps.obs[0][1, 0] = -3e38
    greatest = rf"3e\+38, of the sensor {net.spec.observation_specs[0].name!r} of agent {steps.agent_id[1]}\."
    with pytest.raises(FloatingPointError, match=f"policy's output is not a finite number.* {greatest}"):
        policy.act([steps])


# A mask that forbids all actions of a branch -----------------------------------------------------------


def masked_policy(deterministic: bool) -> Policy:
    spec, generator = vector_spec([3], 0, (2, 4)), torch.Generator().manual_seed(0)
    net = ActorCritic(spec, NetworkSettings(hidden_units=8), ["extrinsic"], generator=generator)
    net.actions.bias.data[:] = torch.tensor([0.0, 5.0, 0.0, 5.0, 0.0, 0.0])
    return Policy(net, spec, 1, deterministic=deterministic)


def masked(shut: int | None) -> DecisionSteps:
    """Agents 100 and on; from the row `shut` on, all actions of the second branch are forbidden."""
    mask = [np.zeros((400, size), np.bool_) for size in (2, 4)]
    mask[0][:, 0] = True
    if shut is not None:
        mask[1][shut:] = True
    return decisions([np.zeros((400, 3), np.float32)], np.arange(100, 500), mask)


def test_every_action_of_the_branch_is_as_likely(caplog: pytest.LogCaptureFixture) -> None:
    acting = masked_policy(deterministic=False)
    with caplog.at_level(logging.WARNING):
        acting.act([masked(None)])
        assert not caplog.records
        (decided,) = acting.act([masked(7)])
        acting.act([masked(0)])
    (record,) = caplog.records
    assert "Agent 107" in record.message and "all 4 actions of branch 1" in record.message
    assert "Let the mask that the game gives" in record.message
    assert (decided.action.discrete[:, 0] == 1).all()
    counts = np.bincount(decided.action.discrete[7:, 1], minlength=4)
    assert counts.min() > 60
    np.testing.assert_allclose(decided.log_probs[7:, 1], np.log(0.25), rtol=1e-5)
    assert (decided.action.discrete[:7, 1] == 1).mean() > 0.5, "the others act by their logits"


def test_a_deterministic_policy_takes_the_first() -> None:
    (decided,) = masked_policy(deterministic=True).act([masked(7)])
    assert (decided.action.discrete[7:, 1] == 0).all()
    assert (decided.action.discrete[:7, 1] == 1).all()


def test_a_step_without_a_choice_has_no_gradient() -> None:
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
