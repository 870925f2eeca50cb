"""What reward signals with networks of their own are asked, and what they learn."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lanista.agent_processor.rollout import next_steps
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.buffers.rollout_buffer import RolloutBuffer
from lanista.trainers.networks.modules.distributions import flat_actions
from lanista.trainers.networks.observation_kinds import UnsupportedObservationError
from lanista.trainers.rewards import factory
from lanista.trainers.rewards.curiosity import Curiosity
from lanista.trainers.rewards.factory import make_learned_rewards
from lanista.trainers.rewards.gail import GAIL, Discriminator, RandomDraws, Sample, gradient_penalty
from lanista.trainers.rewards.rnd import RND
from lanista.trainers.rewards.training import SignalTrainer
from lanista.trainers.rewards.transitions import SignalSteps, Transitions, minibatches
from lanista.trainers.settings.models.rewards import (
    REWARD_SIGNAL_SETTINGS,
    CuriositySettings,
    GAILSettings,
    LearnedRewardSettings,
    RewardSignalSettings,
    RNDSettings,
)
from rollouts import demonstrations, random_rollout
from specs import spec_of_shapes, vector_spec

CPU = torch.device("cpu")
SMALL = {"hidden_units": 16, "num_layers": 2}


def rnd_of(spec, **keys):
    network = {**SMALL, **keys.pop("network_settings", {})}
    return RND(spec, RNDSettings(network_settings=network, **keys), CPU, 0, NonFinitePolicy.STOP)


def curiosity_of(spec, **keys):
    settings = CuriositySettings(network_settings=SMALL, **keys)
    return Curiosity(spec, settings, CPU, 0, NonFinitePolicy.STOP)


def gail_of(spec, demos, action_range=3.0, **keys):
    settings = GAILSettings(demo_path="-", network_settings=SMALL, **keys)
    return GAIL(spec, settings, demos, CPU, 0, NonFinitePolicy.STOP, action_range=action_range)


# Steps ----------------------------------------------------------------------------------------------------


def followers(rollout):
    """What followed each step, by the definition."""
    at = next_steps(rollout.lengths)
    return np.concatenate([rollout.obs[0], rollout.next_obs[0]])[at]


def test_each_step_is_followed_by_the_next_or_by_the_final_observation():
    rollout = random_rollout([3, 1, 4], seed=1)
    steps = Transitions.of_rollout(rollout, CPU)
    which = torch.tensor([7, 0, 2, 3, 5])
    some = steps.rows(which)
    np.testing.assert_array_equal(some.next_obs[0], followers(rollout)[which])
    np.testing.assert_array_equal(some.obs[0], rollout.obs[0][which])
    assert some.done.tolist() == rollout.done[which].astype(float).tolist() == [1.0, 0.0, 1.0, 1.0, 0.0]


def test_steps_that_wait_are_joined_and_kept_in_a_checkpoint():
    parts = [random_rollout([3, 2], seed=1), random_rollout([4], seed=2)]
    buffer, restored = RolloutBuffer(SignalSteps), RolloutBuffer(SignalSteps)
    for part in parts:
        buffer.append(SignalSteps.of(part))
    restored.load_state_dict(buffer.state_dict())
    for kept in (buffer, restored):
        every = kept.columns().on(CPU).rows(torch.arange(9))
        np.testing.assert_array_equal(every.next_obs[0], np.concatenate([followers(part) for part in parts]))


def test_an_epoch_uses_every_step_once_except_for_an_incomplete_minibatch():
    steps = Transitions.of_rollout(random_rollout([6, 5], seed=0), CPU)
    seen = [row for part in minibatches(steps, 4, torch.Generator().manual_seed(0)) for row in part.obs[0]]
    assert len(seen) == 8 and len({tuple(row.tolist()) for row in seen}) == 8


def test_fewer_steps_than_a_minibatch_are_one():
    """A recurrent policy's buffer may be full of padding; what is real in it is learned from."""
    steps = Transitions.of_rollout(random_rollout([2, 3], seed=0), CPU)
    (only,) = minibatches(steps, 64, torch.Generator())
    assert len(only) == 5


class Counting:
    """A signal that writes down what it is given."""

    needs_next_obs = False

    def __init__(self):
        self.sizes = []

    def learn(self, steps, policy_step):
        assert not steps.next_obs, "nobody looks ahead"
        self.sizes.append((len(steps), policy_step))
        return {"Losses/Count": float(len(self.sizes))}


def test_signals_learn_as_often_as_the_policy_from_the_same_steps():
    signal = Counting()
    learning = SignalTrainer({"count": signal}, batch_size=4, epochs=3, device=CPU, seed=0)
    learning.append(random_rollout([5], seed=0))
    learning.append(random_rollout([6], seed=1))
    assert learning.learn(77) == {"Losses/Count": 3.5}
    assert signal.sizes == [(4, 77)] * 6
    assert len(learning.buffer) == 0


def test_actions_side_by_side():
    actions = (torch.tensor([[0.5], [-1.0]]), torch.tensor([[2, 0], [0, 1]]))
    assert flat_actions(*actions, (3, 2)).tolist() == [[0.5, 0, 0, 1, 1, 0], [-1.0, 1, 0, 0, 0, 1]]


# What they learn ------------------------------------------------------------------------------------------


def test_observations_seen_often_earn_little():
    spec = vector_spec([3], continuous=1)
    signal = rnd_of(spec, learning_rate=1e-2)
    known, strange = random_rollout([64], seed=0), random_rollout([64], seed=1)
    strange = replace(strange, obs=[strange.obs[0] + 4])
    before = signal.evaluate(known).mean()
    target = {name: value.clone() for name, value in signal.target.state_dict().items()}
    for _ in range(300):
        signal.learn(Transitions.of_rollout(known, CPU), 0)
    assert signal.evaluate(known).mean() < 0.02 * before
    assert signal.evaluate(strange).mean() > 5 * signal.evaluate(known).mean()
    assert all(torch.equal(value, target[name]) for name, value in signal.target.state_dict().items())


def test_normalizers_are_updated_by_collected_steps_only():
    spec = vector_spec([3], continuous=1)
    signal = rnd_of(spec, network_settings={"normalize": True})
    (normalizer,) = signal.predictor.encoder.normalizers
    rollout = random_rollout([5, 4], seed=0)
    signal.evaluate(rollout)
    signal.learn(Transitions.of_rollout(rollout, CPU), 0)
    assert int(normalizer.steps) == 1
    signal.update_normalizer(rollout)
    assert int(normalizer.steps) == 10
    assert signal.target.encoder.normalizers is None, "both read what one has prepared"


@pytest.mark.slow
def test_curiosity_rewards_effects_of_actions_and_fades():
    """Moving by the action is soon predicted; noise that no action has to do with is not looked at."""
    spec, random = vector_spec([2], continuous=1), np.random.default_rng(0)
    rollout = random_rollout([1] * 256, seed=0, spec=spec)
    moved = rollout.obs[0] + np.concatenate([rollout.continuous, np.zeros((256, 1))], 1).astype(np.float32)
    moved[:, 1] = random.normal(size=256)
    rollout = replace(rollout, next_obs=[moved])
    signal = curiosity_of(spec, learning_rate=3e-3)
    assert not signal.evaluate(rollout).any(), "nothing has been learnt yet"
    steps = Transitions.of_rollout(rollout, CPU)
    told = [signal.learn(steps, 0) for _ in range(150)]
    inverse, forward = (
        [one[f"Losses/Curiosity {kind} Loss"] for one in told] for kind in ("Inverse", "Forward")
    )
    assert inverse[-1] < 0.3 * inverse[0] and forward[-1] < 0.3 * forward[0]


def test_curiosity_is_bounded():
    rollout = random_rollout([30], seed=0)
    signal = curiosity_of(vector_spec([3], continuous=1), strength=50.0)
    signal.learn(Transitions.of_rollout(rollout, CPU), 0)
    rewards = signal.evaluate(rollout)
    assert rewards.max() == pytest.approx(1 / 50) and rewards.min() >= 0
    assert curiosity_of(vector_spec([3], continuous=1), strength=0.0).most == np.inf


@pytest.mark.parametrize("keys", [{}, {"use_vail": True}, {"use_actions": True}])
def test_acting_like_the_expert_is_rewarded(keys):
    spec = vector_spec([2], continuous=1)
    demos = demonstrations(spec, [100])
    signal = gail_of(spec, demos, learning_rate=3e-3, **keys)
    others = random_rollout([100], seed=5, spec=spec)
    others = replace(others, obs=[others.obs[0] + 3])
    alike = replace(others, obs=demos.obs, continuous=demos.continuous, done=demos.done)
    for _ in range(120):
        told = signal.learn(Transitions.of_rollout(others, CPU), 0)
    assert told["Policy/GAIL Expert Estimate"] > told["Policy/GAIL Policy Estimate"] + 0.2
    assert signal.evaluate(alike).mean() > signal.evaluate(others).mean() + 0.3


@pytest.mark.parametrize(
    "action_range, expected",
    [(3.0, [1.0, 0.5, -1.0, 0.1]), (1.0, [1.0, 1.0, -1.0, 0.3]), (None, [6.0, 1.5, -3.0, 0.3])],
)
def test_actions_may_be_compared_as_the_engine_gets_them(action_range, expected):
    spec = vector_spec([2], continuous=1)
    rollout = random_rollout([4], seed=0, spec=spec)
    rollout = replace(rollout, continuous=np.array([[6.0], [1.5], [-3.0], [0.3]], np.float32))
    steps = Transitions.of_rollout(rollout, CPU)
    signals = [
        gail_of(spec, demonstrations(spec, [5]), action_range, use_actions=True, engine_actions=engine)
        for engine in (False, True)
    ]
    drawn, told = (signal.sample(steps).acted[:, 0].tolist() for signal in signals)
    assert drawn == pytest.approx([6.0, 1.5, -3.0, 0.3])
    assert told == pytest.approx(expected)


def test_the_penalty_is_over_all_observations_as_they_come():
    """Against numeric slopes, of two vectors, one normalized picture of bytes among them."""
    spec = spec_of_shapes([[2], [1, 20, 20], [3]], continuous=1)
    demos = demonstrations(spec, [6])
    settings = GAILSettings(demo_path="-", network_settings={**SMALL, "normalize": True})
    signal = GAIL(spec, settings, demos, CPU, 0, NonFinitePolicy.STOP, action_range=3.0)
    network = signal.discriminator.double()
    policy, expert = (
        Sample([torch.from_numpy(column[rows]).double() for column in demos.obs], None)
        for rows in (slice(0, 2), slice(2, 4))
    )
    mix = [torch.rand(column.shape, dtype=torch.float64) for column in policy.obs]
    found = gradient_penalty(network, policy, expert, RandomDraws(mix, None))
    at = [e * a + (1 - e) * b for e, a, b in zip(mix, policy.obs, expert.obs)]

    def estimate():
        with torch.no_grad():
            return network(network.prepare(at), None).expert

    squares, step = torch.zeros(2, dtype=torch.float64), 1e-6
    for column in at:
        flat = column.view(2, -1)
        for k in range(flat.shape[1]):
            flat[:, k] += step
            up = estimate()
            flat[:, k] -= 2 * step
            squares += ((up - estimate()) / (2 * step)) ** 2
            flat[:, k] += step
    assert found.item() == pytest.approx((((squares + 1e-7).sqrt() - 1) ** 2).mean().item(), rel=1e-4)


def test_gail_learns_from_entities():
    """Its penalty differentiates twice, through their attention too."""
    spec = spec_of_shapes([[6, 4], [3]], continuous=1)
    signal = gail_of(spec, demonstrations(spec, [20]))
    told = signal.learn(Transitions.of_rollout(random_rollout([20], seed=1, spec=spec), CPU), 0)
    assert np.isfinite(list(told.values())).all() and told["Policy/GAIL Grad Mag Loss"] > 0


@pytest.mark.parametrize("conditioning", ["hyper", "none"])
def test_the_penalty_is_over_goals_too(conditioning):
    """Also where the goal makes the weights of the last layer."""
    spec = spec_of_shapes([(3,), (2,)], [0, 1])
    settings = {**SMALL, "goal_conditioning_type": conditioning}
    network = Discriminator(spec, GAILSettings(demo_path="-", network_settings=settings), torch.Generator())
    network.double()
    inputs = [
        row.double().requires_grad_() for row in network.prepare([torch.randn(4, 3), torch.randn(4, 2)])
    ]
    assert torch.autograd.gradcheck(lambda *given: network(given, None).expert, inputs)


def test_the_expert_s_statistics_stay_those_of_the_demonstrations():
    """Whatever those of the run were whose weights are taken: its file may have been recorded anew."""
    spec = vector_spec([3])
    before = demonstrations(spec, [40])
    since = replace(before, obs=[rows + np.float32(100) for rows in before.obs])
    normal = {**SMALL, "normalize": True}

    def gail(demos):
        settings = GAILSettings(demo_path="-", network_settings=normal)
        return GAIL(spec, settings, demos, CPU, 0, NonFinitePolicy.STOP, action_range=3.0)

    fresh, state = gail(since).discriminator.encoder.normalizers.state_dict(), gail(before).state_dict()
    for load in ("initialize_from", "load_state_dict"):
        signal = gail(since)
        getattr(signal, load)(state)
        found = signal.discriminator.encoder.normalizers.state_dict()
        assert found.keys() == fresh.keys() and all(torch.equal(found[key], fresh[key]) for key in fresh)
        assert torch.equal(signal.discriminator.estimate.weight, state["discriminator"]["estimate.weight"])


def test_a_signal_that_nothing_builds_is_an_error_and_never_the_rewards_of_the_environment(monkeypatch):
    class NewSignal(LearnedRewardSettings):
        """Settings that have no branch in the factory yet."""

    monkeypatch.setitem(REWARD_SIGNAL_SETTINGS, "fresh", NewSignal)
    with pytest.raises(TypeError, match=r"reward_signals\.fresh.*NewSignal"):
        make_learned_rewards(
            vector_spec([4], continuous=1),
            {"fresh": NewSignal()},
            CPU,
            0,
            NonFinitePolicy.STOP,
            action_range=3.0,
        )


def test_a_plugins_signal_that_is_an_empty_container_is_used(monkeypatch):
    counts = Counter()
    monkeypatch.setattr(factory, "_provider_of_plugin", lambda *_: counts)
    settings = SimpleNamespace(reward_signals={"counts": RewardSignalSettings()})
    algorithm = SimpleNamespace(network=SimpleNamespace(actions=SimpleNamespace(squashed=False)))
    made = factory.make_reward_providers(algorithm, None, settings, "cpu", 0, NonFinitePolicy.STOP)
    assert made["counts"] is counts


def test_an_image_that_a_signal_cannot_read_is_reported_with_the_signal():
    spec, signals = spec_of_shapes([(3, 8, 8)], continuous=1), {"rnd": RNDSettings()}
    expected = r"reward_signals\.rnd: Observation .* 8x8 .*vis_encode_type to match3"
    with pytest.raises(UnsupportedObservationError, match=expected):
        make_learned_rewards(spec, signals, CPU, 0, NonFinitePolicy.STOP, action_range=3.0)
