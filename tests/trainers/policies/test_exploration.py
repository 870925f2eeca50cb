"""How greedy policies explore: coins, chances and noise are each agent's own, and follow their schedules."""

import numpy as np
import policysteps
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.envs.base import EnvironmentStep
from lanista.trainers.networks.actor import Actor
from lanista.trainers.networks.modules.distributions import ExplorationSchedule
from lanista.trainers.networks.modules.heads import HeadConfig
from lanista.trainers.policies.exploration import (
    ActionNoise,
    EpsilonGreedy,
    action_noise,
    uniform_actions,
)
from lanista.trainers.policies.greedy import GreedyPolicy, make_actor_policy
from lanista.trainers.policies.policy import ActContext
from lanista.trainers.settings.models.algorithms import DDPGSettings, NoiseType
from lanista.trainers.settings.models.networks import NetworkSettings
from mlagents_envs.base_env import ActionSpec, TerminalSteps
from specs import vector_spec

BEHAVIOR = "Ball?team=0"
ALWAYS = ExplorationSchedule(1.0, 1.0, 0)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def decisions(ids, mask=None):
    return policysteps.decisions(policysteps.random_obs([(3,)], len(ids)), ids, mask)


def ended(ids):
    ids = np.array(ids, np.int32)
    zeros = np.zeros(len(ids), np.float32)
    terminals = TerminalSteps([np.zeros((len(ids), 3), np.float32)], zeros, zeros > 0, ids, ids, zeros)
    return EnvironmentStep(0, {BEHAVIOR: (decisions([]), terminals)}, {})


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_random_actions_are_never_forbidden_ones(seed, sizes):
    random, rows = np.random.default_rng(seed), 40
    forbidden = random.random((rows, sum(sizes))) < 0.6
    greedy = np.zeros((rows, len(sizes)), np.int64)
    explore = EpsilonGreedy(ActionSpec(0, tuple(sizes)), ALWAYS)
    chosen = explore(greedy, forbidden, 0, generator(seed))
    start = 0
    for k, size in enumerate(sizes):
        assert ((chosen[:, k] >= 0) & (chosen[:, k] < size)).all()
        mask = forbidden[:, start : start + size]
        nothing = mask.all(1)
        assert (nothing | ~mask[np.arange(rows), chosen[:, k]]).all()
        start += size


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(0, 3), st.lists(st.integers(1, 4), max_size=3))
def test_uniform_actions_are_allowed_ones_and_their_probabilities_those_of_the_uniform(seed, size, sizes):
    random, rows = np.random.default_rng(seed), 40
    forbidden = random.random((rows, sum(sizes))) < 0.6 if sizes else None
    drawn = uniform_actions(ActionSpec(size, tuple(sizes)), rows, forbidden, generator(seed))
    assert drawn.continuous.shape == (rows, size) and (np.abs(drawn.continuous) <= 1.0).all()
    np.testing.assert_allclose(drawn.log_probs[:, :size], np.log(0.5), rtol=1e-6)
    entropy, start = np.full(rows, np.log(2.0) if size else 0.0), 0
    for k, branch in enumerate(sizes):
        for row in range(rows):
            free = np.flatnonzero(~forbidden[row, start : start + branch])
            free = free if len(free) else np.arange(branch)
            assert drawn.discrete[row, k] in free
            assert drawn.log_probs[row, size + k] == pytest.approx(-np.log(len(free)), abs=1e-6)
            entropy[row] += np.log(len(free))
        start += branch
    np.testing.assert_allclose(drawn.entropy, entropy, rtol=1e-5, atol=1e-6)


def test_uniform_actions_reach_everything_equally_often():
    drawn = uniform_actions(ActionSpec(2, (4,)), 40000, None, generator())
    np.testing.assert_allclose(np.histogram(drawn.continuous, 8, (-1, 1))[0] / 80000, 1 / 8, atol=0.01)
    assert abs(np.corrcoef(drawn.continuous.T)[0, 1]) < 0.02
    np.testing.assert_allclose(np.bincount(drawn.discrete[:, 0]) / 40000, 1 / 4, atol=0.015)


def test_every_agent_tosses_a_coin_of_its_own_and_one_for_all_branches():
    explore = EpsilonGreedy(ActionSpec(0, (50, 50)), ExplorationSchedule(0.3, 0.3, 0))
    greedy = np.full((20000, 2), 7)
    chosen = explore(greedy, None, 0, generator())
    by_chance = chosen != 7
    assert by_chance[:, 0].mean() == pytest.approx(0.3 * 49 / 50, abs=0.015)
    both = by_chance.all(1).mean()
    assert both == pytest.approx(0.3 * (49 / 50) ** 2, abs=0.015)


def test_random_actions_are_uniform_over_the_available_ones():
    explore = EpsilonGreedy(ActionSpec(0, (4,)), ALWAYS)
    forbidden = np.tile([False, True, False, False], (30000, 1))
    chosen = explore(np.zeros((30000, 1), np.int64), forbidden, 0, generator())
    shares = np.bincount(chosen[:, 0], minlength=4) / len(chosen)
    np.testing.assert_allclose(shares, [1 / 3, 0, 1 / 3, 1 / 3], atol=0.015)


@pytest.mark.parametrize("kind", NoiseType)
def test_noise_has_the_schedules_deviation_in_the_long_run(kind):
    noise = ActionNoise(ActionSpec(2, ()), kind, ExplorationSchedule(0.4, 0.1, 1000))
    asking, batch, source = [(0, BEHAVIOR)], [decisions(range(500))], generator()
    for _ in range(60):
        drawn = noise(asking, batch, 500, source)
    assert drawn.shape == (500, 2)
    assert drawn.std() == pytest.approx(0.25, rel=0.1)
    assert np.abs(noise(asking, batch, 5000, source)).mean() == pytest.approx(
        0.1 * np.sqrt(2 / np.pi), rel=0.1
    )


def stable_baselines3(theta, dt):
    """x += theta (0 - x) dt + sigma sqrt(dt) normal, with sigma 1."""
    return 1 - theta * dt, np.sqrt(dt)


def stationary(theta):
    return 1 - theta, np.sqrt(1 - (1 - theta) ** 2)


@pytest.mark.parametrize(
    "keys, factors",
    [
        ({}, stationary(0.15)),
        ({"noise_theta": 0.5}, stationary(0.5)),
        ({"noise_dt": 0.01}, stable_baselines3(0.15, 0.01)),
        ({"noise_theta": 0.5, "noise_dt": 1.0}, stable_baselines3(0.5, 1.0)),
    ],
)
def test_correlated_noise_is_per_agent_and_restarts_with_its_episode(keys, factors):
    hyper = DDPGSettings(noise_type="ornstein_uhlenbeck", noise_start=1.0, **keys)
    noise = action_noise(ActionSpec(1, ()), hyper)
    kept, spread = factors
    source, twin = generator(), generator()
    fresh = lambda n: torch.randn((n, 1), generator=twin).numpy() * spread  # noqa: E731
    first = noise([(0, BEHAVIOR), (1, BEHAVIOR)], [decisions([3, 5]), decisions([3])], 0, source)
    np.testing.assert_allclose(first, fresh(3), rtol=1e-5)
    second = noise([(0, BEHAVIOR)], [decisions([5, 3])], 0, source)
    np.testing.assert_allclose(second, fresh(2) + kept * first[[1, 0]], rtol=1e-5)
    noise.end_episodes(ended([5]), BEHAVIOR)
    third = noise([(0, BEHAVIOR)], [decisions([3, 5])], 0, source)
    np.testing.assert_allclose(third, fresh(2) + kept * np.array([second[1], [0.0]]), rtol=1e-5)
    other = noise([(1, BEHAVIOR)], [decisions([3])], 0, source)
    np.testing.assert_allclose(other, fresh(1) + kept * first[2:], rtol=1e-5)


def greedy_policy(spec, head, explorer, seed=5, **keys):
    chosen = NetworkSettings(hidden_units=8, normalize=True)
    network = Actor(spec, chosen, generator(1), head=head)
    policy = make_actor_policy(network, spec, seed, explorer=explorer, **keys)
    assert isinstance(policy, GreedyPolicy)
    return policy


CONTINUOUS = vector_spec([3], 2)
DISCRETE = vector_spec([3], 0, (3, 4))


def continuous(kind=NoiseType.ORNSTEIN_UHLENBECK, deviation=3.0, **keys):
    explorer = ActionNoise(CONTINUOUS.action_spec, kind, ExplorationSchedule(deviation, 0.0, 100))
    return greedy_policy(CONTINUOUS, HeadConfig(deterministic=True), explorer, **keys)


def discrete(start=1.0, signals=1, **keys):
    explorer = EpsilonGreedy(DISCRETE.action_spec, ExplorationSchedule(start, 0.0, 100))
    return greedy_policy(DISCRETE, HeadConfig(values=signals, dueling=True), explorer, **keys)


def act(policy, step=0, ids=range(30), mask=None):
    (decision,) = policy.act([decisions(ids, mask=mask)], ActContext([(0, BEHAVIOR)], step=step))
    return decision


def test_noise_is_clipped_and_the_executed_action_is_stored():
    policy = continuous()
    decision = act(policy)
    taken = decision.action.continuous
    assert (np.abs(taken) == 1.0).any() and (np.abs(taken) <= 1.0).all()
    np.testing.assert_array_equal(decision.env_action.continuous, taken)
    greedy = act(policy, step=100).action.continuous
    obs = [torch.from_numpy(decisions(range(30)).obs[0])]
    with torch.no_grad():
        expected = policy.network.act(policy.network.prepare(obs)).deterministic().continuous
    np.testing.assert_allclose(greedy, expected, rtol=1e-5)


@pytest.mark.parametrize("signals", [1, 2])
def test_agents_take_the_best_available_action_by_the_sum_of_signals(signals):
    policy = discrete(start=0.0, signals=signals)
    random = np.random.default_rng(0)
    mask = [random.random((30, 3)) < 0.4, random.random((30, 4)) < 0.4]
    mask[0][:, 0] = mask[1][:, 3] = False
    chosen = act(policy, mask=mask).action.discrete
    network = policy.network
    obs = torch.from_numpy(decisions(range(30)).obs[0])
    with torch.no_grad():
        total = network.actions.q(network.actor_encoding(network.prepare([obs]))).sum(1).numpy()
    first = np.where(mask[0], -np.inf, total[:, :3]).argmax(1)
    second = np.where(mask[1], -np.inf, total[:, 3:]).argmax(1)
    np.testing.assert_array_equal(chosen, np.stack([first, second], 1))


@pytest.mark.parametrize("make", [continuous, discrete])
def test_testing_agents_explore_nothing_and_draw_nothing(make):
    policy = make(deterministic=True)
    before = policy.generator.get_state()
    one, two = act(policy), act(policy)
    np.testing.assert_array_equal(one.action.continuous, two.action.continuous)
    np.testing.assert_array_equal(one.action.discrete, two.action.discrete)
    assert torch.equal(policy.generator.get_state(), before)


@pytest.mark.parametrize("make", [continuous, discrete])
def test_a_seed_repeats_actions_and_a_saved_generator_continues(make):
    one, two = make(), make()
    other = make(seed=6)
    shown = [[act(policy) for _ in range(3)] for policy in (one, two, other)]

    def numbers(of):
        return [np.concatenate([d.action.continuous.ravel(), d.action.discrete.ravel()]) for d in of]

    np.testing.assert_array_equal(numbers(shown[0]), numbers(shown[1]))
    assert not np.array_equal(numbers(shown[0]), numbers(shown[2]))
    resumed = make(seed=99)
    resumed.generator.set_state(one.generator.get_state())
    for policy in (one, resumed):  # a resumed run starts new episodes
        policy.explorer.end_episodes(EnvironmentStep(0, {}, {}, fresh=True), BEHAVIOR)
    np.testing.assert_array_equal(numbers([act(one)]), numbers([act(resumed)]))


@given(st.floats(0, 1), st.floats(0, 1), st.integers(0, 10**6), st.integers(0, 2 * 10**6))
def test_schedules_are_straight_lines_clamped_at_their_ends(start, end, decay, step):
    value = ExplorationSchedule(start, end, decay)(step)
    assert min(start, end) - 1e-12 <= value <= max(start, end) + 1e-12
    if step >= decay:
        assert value == end
    else:
        assert value == pytest.approx(start + (end - start) * step / decay)
