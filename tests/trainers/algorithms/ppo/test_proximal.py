"""Steps of an older policy are learned from with the newest as the one to stay near."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from evaluated_steps import LSTM, made, steps_of
from lanista.trainers.algorithms.poca.poca import POCA
from lanista.trainers.algorithms.ppo import losses as proximal
from lanista.trainers.algorithms.ppo.ppo import PPO
from lanista.trainers.buffers.rollout_buffer import learned_advantages, normalized
from lanista.trainers.settings.models.algorithms import AdvantageNormalization


def moved(algorithm, scale):
    """Another policy."""
    with torch.no_grad():
        for parameter in algorithm.network.parameters():
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3))
            parameter += scale * noise


CASES = [(PPO, None), (PPO, LSTM), (POCA, None), (POCA, LSTM)]


@pytest.mark.parametrize("make, memory", CASES)
def test_steps_of_the_newest_policy_stay_as_they_are(make, memory):
    algorithm = made(make, memory)
    steps = steps_of(algorithm)
    again = algorithm.as_of_newest_policy(steps)
    np.testing.assert_array_equal(again.log_probs, steps.log_probs)
    np.testing.assert_array_equal(again.weights, np.ones(len(steps)))


@pytest.mark.parametrize("make, memory", CASES)
def test_actions_weigh_as_much_as_they_have_become_likelier(monkeypatch, make, memory):
    algorithm = made(make, memory)
    steps = steps_of(algorithm)
    noise = np.random.default_rng(1).normal(scale=0.5, size=steps.log_probs.shape)
    steps = replace(steps, log_probs=(steps.log_probs + noise).astype(np.float32))
    moved(algorithm, 0.1)
    whole = algorithm.as_of_newest_policy(steps)
    monkeypatch.setattr(proximal, "CHUNK", 16)
    found = algorithm.as_of_newest_policy(steps)
    np.testing.assert_allclose(found.log_probs, whole.log_probs, atol=1e-6)
    ratio = np.exp((found.log_probs - steps.log_probs).sum(axis=1))
    assert (ratio > 2.0).any() and (ratio < 0.8).any() and found.weights.dtype == np.float32
    np.testing.assert_allclose(found.weights, np.minimum(ratio, 2.0), rtol=1e-5)
    weighted = normalized(steps.advantages) * found.weights
    learned, left = learned_advantages(found, AdvantageNormalization.BUFFER)
    np.testing.assert_allclose(learned[:, 0], weighted, rtol=1e-5)
    assert left is None
    assert found.advantages is steps.advantages
    assert found.returns is steps.returns and found.obs is steps.obs


@pytest.mark.parametrize("offset", [3.0, -3.0])
def test_what_all_actions_earn_alike_teaches_nothing(offset):
    """Weights count after the mean is gone: else it would push on where the last update went, or back."""

    def learned(offset):
        algorithm = made(PPO, batch_size=72, num_epoch=1, beta=0.0)
        steps = steps_of(algorithm)
        moved(algorithm, 0.1)
        steps = replace(steps, advantages=steps.advantages + np.float32(offset))
        algorithm.update(algorithm.as_of_newest_policy(steps), 0)
        return torch.cat(
            [parameter.detach().flatten() for parameter in algorithm.network.actions.parameters()]
        )

    torch.testing.assert_close(learned(offset), learned(0.0), rtol=1e-4, atol=1e-5)


def test_an_update_goes_on_where_the_one_before_has_reached_the_limit():
    """Where all that is good has become likelier than by epsilon, and all that is bad less likely."""
    weights = []
    for newest in (False, True):
        algorithm = made(PPO, batch_size=72, num_epoch=1, beta=0.0)
        steps = steps_of(algorithm)
        signs = np.sign(steps.advantages - steps.advantages.mean())[:, None]
        older = replace(steps, log_probs=(steps.log_probs - signs).astype(np.float32))
        actor = algorithm.network.actions
        before = [parameter.detach().clone() for parameter in actor.parameters()]
        algorithm.update(algorithm.as_of_newest_policy(older) if newest else older, 0)
        weights.append(all(torch.equal(*pair) for pair in zip(before, actor.parameters())))
    assert weights == [True, False]
