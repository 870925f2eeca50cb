"""The keys of the clipped objective that other libraries have, in each trainer that takes them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from evaluated_steps import LSTM, made, steps_of
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.trainers.algorithms.common.kl_control import KLControl
from lanista.trainers.algorithms.common.optim import ClippedSchedules, FlatAdam, FlatParameters
from lanista.trainers.algorithms.mappo import MAPPO
from lanista.trainers.algorithms.poca.poca import POCA
from lanista.trainers.algorithms.ppo.ppo import PPO
from lanista.trainers.buffers.rollout_buffer import RolloutBatch, learned_advantages
from lanista.trainers.networks.modules.distributions import Actions
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.models.algorithms import AdvantageNormalization, PPOSettings
from lanista.trainers.settings.options import RunOptions
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ADAPTIVE = {"learning_rate_schedule": "adaptive_kl"}
TRAINERS = [(kind, memory) for kind in (PPO, POCA, MAPPO) for memory in (None, LSTM)]


def weights(algorithm):
    return torch.cat([p.detach().flatten() for m in algorithm.modules().values() for p in m.parameters()])


def gradient_steps(algorithm):
    return algorithm.policy_optimizer.adam.steps


@pytest.mark.parametrize("kind, memory", TRAINERS)
def test_an_update_ends_where_the_policy_has_moved_too_far(kind, memory):
    counts = []
    for target in (None, 1e-12, 1e6):
        algorithm = made(kind, memory, batch_size=16, num_epoch=3, learning_rate=0.01, target_kl=target)
        metrics = algorithm.update(steps_of(algorithm), 0)
        counts.append(gradient_steps(algorithm))
        assert metrics["Policy/Approximate KL"] >= 0.0
    whole, short, never = counts
    assert whole == never > 2
    # Where the policy has not moved yet its divergence is 0, but for rounding; after a step it is not.
    assert short in (0, 1)


@pytest.mark.parametrize("kind, memory", TRAINERS)
@pytest.mark.parametrize(
    "keys",
    [
        {"ratio": "joint"},
        {"normalize_advantages": "minibatch"},
        {"normalize_advantages": False},
        {"value_coefficient": 2.0},
        {"adam_epsilon": 0.1},
    ],
    ids=str,
)
def test_every_key_changes_what_is_learned(kind, memory, keys):
    learned = []
    for given_keys in ({}, keys):
        algorithm = made(kind, memory, batch_size=24, num_epoch=2, **given_keys)
        steps = steps_of(algorithm)
        algorithm.update(steps, 0)
        learned.append(weights(algorithm))
    assert torch.isfinite(learned[1]).all() and not torch.equal(*learned)


@settings(max_examples=60)
@given(st.integers(1, 12), st.booleans(), st.booleans(), st.floats(-100, 100), st.integers(0, 99))
def test_advantages_of_a_minibatch(rows, padded, weighted, offset, seed):
    random = np.random.default_rng(seed)
    advantages = (random.normal(size=(rows, 1)) + offset).astype(np.float32)
    real = random.random(rows) < 0.7 if padded else np.ones(rows, bool)
    real[0] = True
    factors = random.random((rows, 1)).astype(np.float32)
    column = torch.zeros(rows, 1)
    batch = RolloutBatch(
        *([column], Actions(column, column.long()), None, column, torch.from_numpy(advantages)),
        *(column, column, torch.from_numpy(real) if padded else None),
        torch.from_numpy(factors) if weighted else None,
    )
    normalized = batch.normalized()
    assert normalized.weights is None, "they are in the advantages now"
    found = normalized.advantages.numpy()
    counted = advantages[real].astype(np.float64)
    expected = advantages
    if len(counted) > 1:
        expected = (advantages - counted.mean()) / (counted.std(ddof=1) + 1e-8)  # as torch.std
    np.testing.assert_allclose(found, expected * (factors if weighted else 1.0), rtol=1e-3, atol=1e-3)


def test_advantages_that_are_left_as_they_are():
    steps = steps_of(made(PPO))
    steps = replace(steps, weights=np.full(len(steps), 0.5, np.float32))
    plain, none = learned_advantages(steps, AdvantageNormalization.NONE)
    np.testing.assert_array_equal(plain[:, 0], steps.advantages * 0.5)
    raw, factors = learned_advantages(steps, AdvantageNormalization.MINIBATCH)
    np.testing.assert_array_equal(raw[:, 0], steps.advantages)
    np.testing.assert_array_equal(factors[:, 0], steps.weights)
    assert none is None


class Kinds(TorchDispatchMode):
    """Collects the types of all tensors that are computed."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.found |= {one.dtype for one in tree_leaves(result) if isinstance(one, torch.Tensor)}
        return result


@pytest.mark.parametrize("memory", [None, LSTM], ids=["plain", "memory"])
def test_an_update_computes_nothing_that_apple_s_gpus_lack(memory):
    algorithm = made(PPO, memory, batch_size=24, normalize_advantages="minibatch")
    steps = steps_of(algorithm)
    batch = RolloutBatch.of(
        *(steps, [torch.zeros(len(steps), 3)], algorithm.device),
        normalization=AdvantageNormalization.MINIBATCH,
    )
    with Kinds() as kinds:
        batch.normalized()
    assert torch.float32 in kinds.found and torch.float64 not in kinds.found


@pytest.mark.parametrize("kind, memory", TRAINERS)
def test_what_is_no_number_ends_no_update_in_silence(kind, memory):
    algorithm = made(kind, memory, batch_size=16, target_kl=0.01)
    steps = steps_of(algorithm)
    with torch.no_grad():
        algorithm.network.actions.bias.fill_(np.nan)
    with pytest.raises(FloatingPointError, match="not a finite number"):
        algorithm.update(steps, 0)


FAR = [(0.0149, True), (0.0151, False), (np.float32(1.0), False), (np.inf, False), (np.nan, True)]


@pytest.mark.parametrize("kl, goes_on", FAR)
def test_how_far_is_too_far(kl, goes_on):
    for keys, expected in (({"target_kl": 0.01}, goes_on), ({}, True), (ADAPTIVE, True)):
        hyper = PPOSettings.model_validate(keys)
        control = KLControl(hyper, ClippedSchedules.of(hyper, 100))
        control.begin()
        assert control.goes_on(kl) is expected


def test_a_learning_rate_adapts_to_how_far_the_policy_moves():
    hyper = PPOSettings.model_validate({**ADAPTIVE, "learning_rate": 1e-3, "target_kl": 0.02})
    schedules = ClippedSchedules.of(hyper, 100)
    control, rates = KLControl(hyper, schedules), []
    control.begin()
    for kl in (0.0, 0.041, 0.039, 0.011, 0.009, 0.0):
        control.goes_on(kl)
        rates.append(schedules.learning_rate(0) / 1e-3)
    # Nothing is concluded from the first, at which the policy is the one that acted.
    assert rates == pytest.approx([1, 1 / 1.5, 1 / 1.5, 1 / 1.5, 1, 1.5])
    for kl, bound in ((1.0, 1e-5), (0.0, 1e-2)):
        for _ in range(60):
            control.goes_on(kl)
        assert schedules.learning_rate(0) == pytest.approx(bound)
    assert hyper.beta_schedule == hyper.epsilon_schedule == "linear"
    assert schedules.metrics(0)["Policy/Learning Rate"] == schedules.learning_rate(50)


@pytest.mark.parametrize("kind, memory", TRAINERS)
def test_an_adapted_rate_is_saved(kind, memory):
    keys = {**ADAPTIVE, "batch_size": 16, "learning_rate": 1e-3, "target_kl": 1e-9}
    algorithm = made(kind, memory, **keys)
    metrics = algorithm.update(steps_of(algorithm), 0)
    rate = metrics["Policy/Learning Rate"]
    assert rate == algorithm.schedules.learning_rate(0) < 1e-3
    again = made(kind, memory, **keys)
    again.load_state_dict(algorithm.state_dict())
    assert again.schedules.learning_rate(0) == rate
    # With another schedule before or after it the rate is the setting's.
    plain = made(kind, memory, learning_rate=2e-3, learning_rate_schedule="constant")
    plain.load_state_dict(algorithm.state_dict())
    assert plain.schedules.learning_rate(0) == 2e-3
    again = made(kind, memory, **keys)
    again.load_state_dict(plain.state_dict())
    assert again.schedules.learning_rate(0) == 1e-3


@pytest.mark.parametrize(
    "trainer, key, value",
    [
        ("sac", "learning_rate_schedule", "adaptive_kl"),
        ("coma", "learning_rate_schedule", "adaptive_kl"),
        ("ppo", "beta_schedule", "adaptive_kl"),
        ("poca", "epsilon_schedule", "adaptive_kl"),
        ("ppo", "target_kl", "0"),
        ("mappo", "ratio", "whole"),
        ("ppo", "normalize_advantages", "true"),
        ("ppo", "value_coefficient", "-1"),
        ("td3", "adam_epsilon", "0"),
        ("ppo", "clip_end", ".nan"),
        ("coma", "ratio", "joint"),
        ("sac", "target_kl", "0.1"),
        ("sac", "entropy_coefficient", "0"),
        ("dqn", "target_entropy", "-1"),
        ("ddpg", "noise_theta", "0"),
        ("td3", "noise_dt", "0"),
    ],
)
def test_wrong_values_name_their_key(trainer, key, value):
    text = f"behaviors: {{B: {{trainer_type: {trainer}, hyperparameters: {{{key}: {value}}}}}}}"
    with pytest.raises(TrainerConfigError, match=rf"behaviors\.B\.hyperparameters\.{key}: "):
        RunOptions.from_text(text)


def test_epsilon_ends_where_it_is_set_to():
    hyper = PPOSettings.model_validate({"epsilon": 0.3, "clip_end": 0.05, "beta": 0.01})
    schedules = ClippedSchedules.of(hyper, 100)
    assert [schedules.epsilon(step) for step in (0, 50, 100)] == pytest.approx([0.3, 0.175, 0.05])
    assert ClippedSchedules.of(PPOSettings(), 100).epsilon(100) == pytest.approx(0.1)


@pytest.mark.parametrize("epsilon", [1e-8, 1e-5, 0.1])
def test_adam_s_epsilon_is_torch_s(epsilon):
    ours, torchs = (torch.nn.Parameter(torch.linspace(-1, 1, 5)) for _ in range(2))
    flat = FlatParameters([ours])
    adam, reference = FlatAdam(flat, 0.01), torch.optim.Adam([torchs], 0.01, eps=epsilon)
    adam.epsilon = epsilon
    for step in range(4):
        gradient = torch.sin(torch.arange(5.0) + step) * 1e-3
        flat.gradient.copy_(gradient)
        torchs.grad = gradient.clone()
        adam.step()
        reference.step()
    torch.testing.assert_close(flat.vector.data, torchs.data)
