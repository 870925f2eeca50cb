"""Acting is the network's and the distributions' own result, in fewer calls."""

import numpy as np
import pytest
import torch
from lanista.trainers.algorithms.common.optim import FlatAdam, FlatParameters
from lanista.trainers.networks.actor_critic import ActorCritic
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

SIZES = (5, 3)
ACTIONS = {"continuous": ActionSpec(2, ()), "branches": ActionSpec(0, (3, 2)), "hybrid": ActionSpec(2, (3,))}
AGENTS = 7


def network(actions: ActionSpec, *, normalize: bool = True, shared: bool = False) -> ActorCritic:
    observations = [
        ObservationSpec((n,), (DimensionProperty.NONE,), ObservationType.DEFAULT, f"vector{n}") for n in SIZES
    ]
    settings = NetworkSettings(normalize=normalize, hidden_units=16, num_layers=2)
    made = ActorCritic(BehaviorSpec(observations, actions), settings, ["extrinsic"], shared)
    made.actions.log_sigma.data.uniform_(-1, 1)
    return made


def waiting(actions: ActionSpec) -> DecisionSteps:
    random = np.random.default_rng(0)
    zeros = np.zeros(AGENTS, np.float32)
    ids = np.arange(AGENTS, dtype=np.int32)
    obs = [4 * random.standard_normal((AGENTS, n)).astype(np.float32) for n in SIZES]
    mask = [random.random((AGENTS, n)) < 0.3 for n in actions.discrete_branches]
    for branch in mask:
        branch[:, 0] = False
    return DecisionSteps(obs, zeros, ids, mask or None, ids, zeros)


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
    with pytest.raises(FloatingPointError, match="policy's output is not a finite number"):
        policy.act([steps])
