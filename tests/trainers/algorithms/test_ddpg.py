"""The gradient steps of DDPG and TD3 are the papers': beside references that have each critic for itself."""

import numpy as np
import pytest
import torch
from lanista.trainers.algorithms.common.actions import UnsupportedActionError
from lanista.trainers.algorithms.ddpg import DDPG, TD3
from replaybatches import algorithm, batch, copied, swish
from specs import image_spec, vector_spec

SPEC = vector_spec([4], 2)
RATE, TAU = 1e-2, 0.1


def ddpg(signals=("extrinsic",), spec=SPEC, network=None, **hyper):
    hyper = {"learning_rate": RATE, "tau": TAU, **hyper}
    return algorithm(DDPG, spec, "ddpg", hyper, network, signals)


def td3(signals=("extrinsic",), spec=SPEC, network=None, **hyper):
    hyper = {"learning_rate": RATE, "tau": TAU, **hyper}
    return algorithm(TD3, spec, "td3", hyper, network, signals)


def mu(weights, obs):
    hidden = swish(obs @ weights["body.layers.0.weight"][0] + weights["body.layers.0.bias"][0])
    return torch.tanh(hidden @ weights["actions.weight"] + weights["actions.bias"])


def q(weights, critic, obs, actions):
    x = torch.cat((obs, actions), 1)
    hidden = swish(x @ weights["body.layers.0.weight"][critic] + weights["body.layers.0.bias"][critic])
    return hidden @ weights["head.weight"][critic] + weights["head.bias"][critic]


class Reference:
    """The networks and Adams of either, one critic at a time."""

    def __init__(self, learner, critics):
        self.actor, self.critics = copied(learner.network), copied(learner.critics)
        self.slow_actor, self.slow_critics = copied(learner.network), copied(learner.critics)
        self.actor_adam = torch.optim.Adam(self.actor.values(), lr=RATE)
        self.critic_adam = torch.optim.Adam(self.critics.values(), lr=RATE)
        self.count = critics

    def targets(self, given, noise=0.0):
        obs = given.next_obs[0]
        actions = (mu(self.slow_actor, obs) + noise).clamp(-1, 1)
        values = [q(self.slow_critics, c, obs, actions) for c in range(self.count)]
        lowest = values[0] if self.count == 1 else torch.minimum(*values)
        return (given.rewards + given.discounts * lowest).detach()

    def learn_values(self, given, targets):
        losses = []
        for c in range(self.count):
            squares = (q(self.critics, c, given.obs[0], given.actions.continuous) - targets) ** 2
            weights = torch.ones(len(given)) if given.weights is None else given.weights
            losses.append((weights * squares.mean(1)).mean())
        self.critic_adam.zero_grad()
        sum(losses).backward()
        self.critic_adam.step()
        return losses

    def learn_policy(self, given):
        loss = -q(self.critics, 0, given.obs[0], mu(self.actor, given.obs[0])).sum(1).mean()
        self.actor_adam.zero_grad()
        loss.backward()
        self.actor_adam.step()
        return loss

    @torch.no_grad()
    def follow(self):
        for slow, fast in ((self.slow_actor, self.actor), (self.slow_critics, self.critics)):
            for name, weight in fast.items():
                slow[name] += TAU * (weight - slow[name])

    def compare(self, learner):
        pairs = [
            (learner.network, self.actor),
            (learner.critics, self.critics),
            (learner.target.network, self.slow_actor),
            (learner.target_critics.network, self.slow_critics),
        ]
        for module, expected in pairs:
            for name, weight in module.named_parameters():
                torch.testing.assert_close(weight, expected[name], rtol=1e-3, atol=1e-5, msg=name)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("signals", [1, 2])
def test_ddpg(signals, weighted):
    learner = ddpg(["extrinsic", "other"][:signals])
    reference = Reference(learner, 1)
    for step in range(4):
        given = batch(SPEC, 6, signals, step, weighted=weighted)
        figures = learner.update(given, step).metrics
        (value_loss,) = reference.learn_values(given, reference.targets(given))
        policy_loss = reference.learn_policy(given)
        reference.follow()
        assert figures["Losses/Value Loss"] == pytest.approx(float(value_loss), rel=1e-4)
        assert figures["Losses/Policy Loss"] == pytest.approx(float(policy_loss), rel=1e-3, abs=1e-5)
    reference.compare(learner)


@pytest.mark.parametrize(("signals", "delay"), [(1, 2), (2, 3)])
def test_td3(signals, delay):
    learner = td3(["extrinsic", "other"][:signals], policy_delay=delay, target_noise=0.6)
    reference = Reference(learner, 2)
    smoother = torch.Generator()
    smoother.set_state(learner.smoother.get_state())
    for step in range(1, 7):
        given = batch(SPEC, 6, signals, step, weighted=True)
        noise = (torch.randn((6, 2), generator=smoother) * 0.6).clamp(-0.5, 0.5)
        figures = learner.update(given, step).metrics
        losses = reference.learn_values(given, reference.targets(given, noise))
        found = [figures["Losses/Q1 Loss"], figures["Losses/Q2 Loss"]]
        assert found == pytest.approx([float(x) for x in losses], rel=1e-4)
        assert ("Losses/Policy Loss" in figures) == (step % delay == 0)
        if step % delay == 0:
            reference.learn_policy(given)
            reference.follow()
    reference.compare(learner)


def test_the_errors_are_means_over_critics_and_signals():
    learner, given = td3(("extrinsic", "other"), target_noise=0.0), batch(SPEC, 5, 2)
    reference = Reference(learner, 2)
    y = reference.targets(given)
    expected = sum(
        (q(reference.critics, c, given.obs[0], given.actions.continuous) - y).abs().mean(1) / 2
        for c in (0, 1)
    )
    np.testing.assert_allclose(learner.update(given, 1).td_errors, expected.detach(), rtol=1e-4)


@pytest.mark.parametrize("make", [ddpg, td3])
def test_a_transferred_policy_starts_with_an_equal_target(make):
    one, two = make(), make(network={"num_layers": 1})
    one.update(batch(SPEC, 6), 1)
    one.update(batch(SPEC, 6), 2)
    assert two.initialize_from(one.state_dict()) == []
    assert torch.equal(two.actor_optimizer.flat.vector, one.actor_optimizer.flat.vector)
    assert torch.equal(two.target.weights, one.actor_optimizer.flat.vector)


@pytest.mark.parametrize("make", [ddpg, td3])
@pytest.mark.parametrize(
    ("spec", "found"),
    [
        (vector_spec([2], 0, (3,)), r"sizes \(3,\)"),
        (vector_spec([2], 1, (3,)), "1 continuous"),
        (vector_spec([2]), "no"),
    ],
)
def test_other_actions_are_refused_with_the_right_trainers(make, spec, found):
    with pytest.raises(UnsupportedActionError, match=f"{found}.*dqn.*ppo"):
        make(spec=spec)


@pytest.mark.parametrize("make", [ddpg, td3])
def test_each_critic_has_its_own_image_encoder(make):
    spec = vector_spec([3], 2)
    spec.observation_specs.append(image_spec(1, 20, 20))
    learner, given = make(spec=spec), batch(spec, 4)
    before = learner.critic_optimizer.flat.vector.clone()
    encoders = learner.critics.encoders
    assert len(encoders) == learner.critics.count
    for step in (1, 2):
        learner.update(given, step)
    assert not torch.equal(before, learner.critic_optimizer.flat.vector)
    first = learner.critics.first(learner.network.prepare(given.obs), given.actions.continuous)
    together = learner.critics(learner.network.prepare(given.obs), given.actions.continuous)
    torch.testing.assert_close(first, together[0])
