"""Acting with `state_dependent_exploration`: whose functions they are, how long they stay, what is stored."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from lanista.envs.base import EnvironmentStep
from lanista.trainers.networks.actor import Actor
from lanista.trainers.networks.modules.distributions import Actions
from lanista.trainers.networks.modules.heads import HeadConfig
from lanista.trainers.policies.agent_states import AgentStates
from lanista.trainers.policies.greedy import make_actor_policy
from lanista.trainers.policies.joint import ActRequest, JointPolicies
from lanista.trainers.policies.policy import ActContext
from lanista.trainers.policies.state_dependent import StateDependentNoise, StateDependentPolicy, noise_of
from lanista.trainers.settings.models.networks import NetworkSettings
from policysteps import decisions, random_obs
from specs import vector_spec

SPEC = vector_spec([4], 2, [3])
BEHAVIOR = "B?team=0"
INTERVAL = 4
SAC = HeadConfig(squashed=True, sigma_of_state=True)


def policy_of(head=None, seed=5, shared=None, memory=None, interval=INTERVAL, **keys):
    network = {"hidden_units": 8, "initial_log_std": -0.5, "memory": memory, "normalize": True}
    network["state_dependent_exploration"] = {"resample_interval": interval}
    settings = NetworkSettings.model_validate(network)
    net = Actor(SPEC, settings, torch.Generator().manual_seed(1), head=head).requires_grad_(False)
    noise = noise_of(net) if shared is None else shared
    policy = make_actor_policy(net, SPEC, seed, explorer=noise, **keys)
    assert isinstance(policy, StateDependentPolicy)
    return policy


def act(policy, obs, ids=None, env=0, states=None):
    context = ActContext([(env, BEHAVIOR)], states)
    (decision,) = policy.act([decisions(obs, ids)], context)
    return decision


def evaluated(policy, obs, decision):
    """Features, means, and the distribution that is learned with, at the same observations."""
    net = policy.network
    prepared = net.prepare([torch.from_numpy(obs[0])])
    return net.actor_encoding(prepared).numpy(), net.act(prepared)


def noise_at(policy, obs, decision):
    features, distribution = evaluated(policy, obs, decision)
    raw = decision.action.continuous
    if policy.network.actions.squashed:
        raw = np.arctanh(raw.astype(np.float64))
    return features, raw - distribution.mu.numpy()


@pytest.mark.parametrize("head", [None, SAC])
def test_within_an_interval_noise_is_a_linear_function_of_the_features(head):
    """Of as many decisions as there are features; the next ones are of another function."""
    policy = policy_of(head, interval=12)
    shown = [noise_at(policy, obs, act(policy, obs)) for obs in (random_obs([(4,)], 1, k) for k in range(24))]
    features, noise = (np.concatenate(part) for part in zip(*shown))
    w, *_ = np.linalg.lstsq(features[:12].astype(np.float64), noise[:12], rcond=None)
    np.testing.assert_allclose(features[:12] @ w, noise[:12], atol=1e-3)
    assert np.abs(features[12:] @ w - noise[12:]).max() > 0.05
    other, *_ = np.linalg.lstsq(features[12:].astype(np.float64), noise[12:], rcond=None)
    np.testing.assert_allclose(features[12:] @ other, noise[12:], atol=1e-3)


def test_over_agents_noise_has_the_deviation_that_the_likelihood_assumes():
    """And log-probabilities are those that updates compute for the same actions."""
    policy = policy_of()
    obs = [random_obs([(4,)], 1)[0].repeat(4000, 0)]
    decision = act(policy, obs)
    _, noise = noise_at(policy, obs, decision)
    _, distribution = evaluated(policy, obs, decision)
    sigma = distribution.log_sigma.exp().numpy()[0]
    np.testing.assert_allclose(noise.std(0) / sigma, 1.0, atol=0.06)  # five deviations of an estimate's error
    np.testing.assert_allclose(noise.mean(0) / sigma, 0.0, atol=0.08)
    taken = Actions(*map(torch.from_numpy, (decision.action.continuous, decision.action.discrete)))
    np.testing.assert_allclose(decision.log_probs, distribution.log_probs(taken), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(decision.entropy, distribution.entropy(), rtol=1e-4)


def test_every_agent_has_a_function_of_its_own_until_its_episode_ends():
    policy = policy_of(interval=100)
    same = [random_obs([(4,)], 1)[0].repeat(2, 0)]
    first = act(policy, same, [7, 3]).action.continuous
    assert np.abs(first[0] - first[1]).min() > 1e-3
    swapped = act(policy, same, [3, 7]).action.continuous
    np.testing.assert_allclose(swapped, first[::-1], rtol=1e-5)
    elsewhere = act(policy, same, [7, 3], env=1).action.continuous
    assert np.abs(elsewhere - first).min() > 1e-3
    policy.noise.end_episodes(EnvironmentStep(0, {}, {}, void_agents={BEHAVIOR: np.array([3])}), BEHAVIOR)
    later = act(policy, same, [7, 3]).action.continuous
    np.testing.assert_allclose(later[0], first[0], rtol=1e-5)
    assert np.abs(later[1] - first[1]).min() > 1e-3


def test_agents_that_started_at_other_times_get_others_at_other_times():
    policy = policy_of(interval=3)
    one = [random_obs([(4,)], 1)[0]]
    two = [one[0].repeat(2, 0)]
    early = [act(policy, one, [0]).action.continuous[0]]
    both = [act(policy, two, [0, 1]).action.continuous for _ in range(4)]
    early += [step[0] for step in both]
    late = [step[1] for step in both]

    def kept(actions):
        return [bool(np.allclose(a, b, rtol=1e-5)) for a, b in pairwise(actions)]

    assert kept(early) == [True, True, False, True]
    assert kept(late) == [True, True, False]


def test_opponents_and_updates_use_a_function_with_their_own_deviations():
    """As in self-play, where policies act for an agent in turn, and after weights have moved."""
    policy = policy_of(interval=100)
    opponent = policy_of(shared=policy.noise, seed=9)
    obs = random_obs([(4,)], 1)
    _, before = noise_at(policy, obs, act(policy, obs))
    opponent.network.actions.log_sigma.add_(1.0)
    _, after = noise_at(opponent, obs, act(opponent, obs))
    np.testing.assert_allclose(after, before * np.e, rtol=1e-3)


def test_beside_other_policies_it_acts_as_by_itself():
    obs = random_obs([(4,)], 3)
    alone, beside, plain = policy_of(), policy_of(), policy_of()
    requests = [
        ActRequest(policy, [decisions(obs)], ActContext([(0, BEHAVIOR)])) for policy in (beside, plain)
    ]
    wanted = act(alone, obs)
    for (found,) in JointPolicies().act(requests):
        np.testing.assert_array_equal(found.action.continuous, wanted.action.continuous)
        np.testing.assert_array_equal(found.action.discrete, wanted.action.discrete)


@pytest.mark.parametrize("memory", [None, {"memory_size": 6}])
def test_a_deterministic_policy_takes_the_means_and_draws_nothing(memory):
    policy = policy_of(deterministic=True, memory=memory)
    obs, before = random_obs([(4,)], 3), policy.generator.get_state()
    states = AgentStates(policy.network.memory_size) if memory else None
    one, two = (act(policy, obs, env=env, states=states) for env in (0, 1))
    np.testing.assert_array_equal(one.action.continuous, two.action.continuous)
    assert torch.equal(policy.generator.get_state(), before)


def test_with_a_memory_the_features_are_what_it_gives():
    policy = policy_of(memory={"memory_size": 6}, interval=100)
    states, obs = AgentStates(6), random_obs([(4,)], 1)
    decision = act(policy, obs, states=states)
    net = policy.network
    prepared = net.prepare([torch.from_numpy(obs[0])])
    distribution, after = net.act_with_memory(prepared, torch.zeros(1, 6))
    np.testing.assert_allclose(decision.memory, after, rtol=1e-5)
    taken = Actions(*map(torch.from_numpy, (decision.action.continuous, decision.action.discrete)))
    np.testing.assert_allclose(decision.log_probs, distribution.log_probs(taken), rtol=1e-3, atol=1e-4)
    assert policy.noise._functions.size == 3 * 2


def test_a_seed_repeats_and_a_saved_generator_continues_with_new_episodes():
    obs = random_obs([(4,)], 3)
    one, two, resumed = policy_of(), policy_of(), policy_of(seed=99)
    shown = [[act(policy, obs).action.continuous for _ in range(6)] for policy in (one, two)]
    np.testing.assert_array_equal(*shown)
    resumed.generator.set_state(one.generator.get_state())
    one.noise.end_episodes(EnvironmentStep(0, {}, {}, fresh=True), BEHAVIOR)
    np.testing.assert_array_equal(act(one, obs).action.continuous, act(resumed, obs).action.continuous)


def test_without_agents_to_know_each_decision_has_noise_of_its_own():
    """As exported brains sample, and checkpoints that are played."""
    policy = make_actor_policy(policy_of().network, SPEC, 3)
    same = [random_obs([(4,)], 1)[0]]
    taken = [act(policy, same).action.continuous for _ in range(2)]
    assert np.abs(taken[0] - taken[1]).min() > 1e-4


def test_noise_is_of_networks_that_have_it():
    assert isinstance(noise_of(policy_of().network), StateDependentNoise)
    assert noise_of(Actor(SPEC, NetworkSettings())) is None
    assert noise_of(Actor(SPEC, NetworkSettings(), head=HeadConfig(deterministic=True))) is None
