"""Values in units of the returns: PopArt against its definition, in every trainer that has it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.common.popart import ValueNormalizer
from lanista.trainers.networks.modules.heads import ValueHead
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.trainer.factory import make_algorithm
from rollouts import team_rollout
from specs import vector_spec

SPEC = vector_spec([3], 1, (2,))
TRAINERS = ["ppo", "poca", "mappo"]
APART = {"critic": {"num_layers": 2}}
"""By which PPO does without its fused gradient."""


def algorithm(trainer, normalize_values=True, network=None, **hyper):
    settings = {
        "trainer_type": trainer,
        "hyperparameters": {"batch_size": 16, "normalize_values": normalize_values, **hyper},
        "network_settings": {"hidden_units": 8, "num_layers": 1, **(network or {})},
        "reward_signals": {"extrinsic": {}, "rnd": {"strength": 0.1}},
    }
    how = (torch.device("cpu"), 0, NonFinitePolicy.STOP)
    return make_algorithm(SPEC, TrainerSettings.model_validate(settings), *how)


def evaluated(made, rollout, scale=1.0, offset=0.0):
    reward = rollout.reward[: rollout.steps]
    rewards = {"extrinsic": scale * reward + offset, "rnd": scale * np.abs(reward)}
    return made.evaluate(rollout, rewards, {"extrinsic": False, "rnd": True})


def rewarded(seed=0):
    generator = np.random.default_rng(seed)
    return team_rollout(generator, [3, 1], 20, reward=generator.normal(size=80).astype(np.float32))


def estimates(made):
    """Of the same steps, whatever was learned before."""
    found = evaluated(made, rewarded(1)).estimates
    return np.concatenate([found[name] for name in sorted(found)])


def test_statistics_are_those_of_all_returns_and_rescaling_keeps_every_value():
    random = np.random.default_rng(0)
    head = ValueHead(4, ["a", "b"], torch.Generator().manual_seed(0))
    normalizer = ValueNormalizer(head)
    encodings = torch.from_numpy(random.normal(size=(50, 4)).astype(np.float32))
    before = head(encodings).detach().numpy()
    np.testing.assert_array_equal(normalizer.restored(before), before)
    parts = [
        (random.normal(size=(n, 2)) * [300.0, 0.01] + [1000.0, -3.0]).astype(np.float32) for n in (200, 400)
    ]
    real = np.arange(400) % 4 > 0
    normalizer.update(parts[0], None)
    normalizer.update(np.where(real[:, None], parts[1], 0.0).astype(np.float32), real)
    kept = head(encodings).detach().numpy()
    np.testing.assert_allclose(normalizer.restored(kept), before, atol=2e-3)
    # As if an observation of 0 with deviation 1 had been the first: that of the normalizer of observations.
    returns = np.concatenate([parts[0], parts[1][real]]).astype(np.float64)
    mean = returns.sum(0) / 501
    squares = 1.0 + ((returns - mean) ** 2).sum(0) + mean**2
    found = [unit.numpy() for unit in normalizer.units()]
    np.testing.assert_allclose(found, [mean, np.sqrt(squares / 501)], rtol=1e-3)
    np.testing.assert_allclose(normalizer.normalized(parts[0]), (parts[0] - found[0]) / found[1], rtol=1e-5)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_counting_returns_changes_no_value(trainer):
    made = algorithm(trainer, learning_rate=0.0)
    before = estimates(made)
    made.update(evaluated(made, rewarded(), scale=50.0, offset=20.0).steps, 0)
    assert made.value_normalizer.units()[1][0] > 10
    np.testing.assert_allclose(estimates(made), before, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("network", [{}, APART], ids=["plain", "critic apart"])
def test_the_size_of_rewards_does_not_change_what_is_learned(trainer, network):
    """Rewards 1000 times as large: the second update has the same losses, and moves the policy as far."""
    told = []
    for scale in (1.0, 1000.0):
        keys = {"baseline_clip": "deviation"} if trainer == "poca" else {"clip_value_loss": bool(network)}
        made = algorithm(trainer, network=network, learning_rate=1e-3, num_epoch=2, **keys)
        made.value_normalizer.head.weight.data.zero_()
        for seed in range(2):
            losses = made.update(evaluated(made, rewarded(seed), scale, 2.0 * scale).steps, 0)
        told.append([losses[kind] for kind in ("Losses/Value Loss", "Policy/Approximate KL")])
    assert told[0] == pytest.approx(told[1], rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("trainer", TRAINERS)
def test_large_returns_are_learned_as_fast_as_small_ones(trainer):
    errors = {}
    for normalize in (False, True):
        hyper = {"num_epoch": 60, "learning_rate": 1e-2, "normalize_values": normalize, "lambd": 0.0}
        hyper |= {"baseline_clip": "none"} if trainer == "poca" else {}
        made, rollout = algorithm(trainer, **hyper), rewarded()
        rollout.reward[:] = 1000.0 * rollout.obs[0][:, 0] + 5000.0
        steps = evaluated(made, rollout).steps
        made.update(steps, 0)
        learned = evaluated(made, rollout).estimates["Value Estimate"][:, 0]
        errors[normalize] = float(((learned - steps.returns[:, 0]) ** 2).mean() / steps.returns[:, 0].var())
    assert errors[True] < 0.7 and errors[False] > 5.0


def test_a_baseline_clip_in_units_of_the_reward_stays_in_these():
    """The range is that of the rewards, whatever the units of the critic."""
    made = algorithm("poca", baseline_clip="reward")
    steps = made.in_units(evaluated(made, rewarded(), scale=50.0).steps)
    deviation = made.value_normalizer.units()[1].numpy()
    np.testing.assert_allclose(made._baseline_range(0.2, steps), 0.2 / deviation, rtol=1e-5)
    made = algorithm("poca", baseline_clip="deviation")
    steps = made.in_units(evaluated(made, rewarded(), scale=50.0).steps)
    np.testing.assert_allclose(made._baseline_range(0.2, steps)[0], 0.2, rtol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize(("before", "after"), [(True, True), (True, False), (False, True)])
def test_a_run_may_go_on_or_begin_with_other_units(trainer, before, after):
    first = algorithm(trainer, normalize_values=before)
    for seed in range(2):
        first.update(evaluated(first, rewarded(seed), scale=30.0, offset=100.0).steps, 0)
    state, expected = first.state_dict(), estimates(first)
    assert ("value_statistics" in state) is before
    resumed, begun = algorithm(trainer, normalize_values=after), algorithm(trainer, normalize_values=after)
    resumed.load_state_dict(state)
    assert begun.initialize_from(state) == []
    for made in (resumed, begun):
        np.testing.assert_allclose(estimates(made), expected, rtol=1e-4, atol=1e-2)
    if before and after:
        steps = evaluated(first, rewarded(5)).steps
        assert first.update(steps, 0) == resumed.update(steps, 0)


def test_a_run_in_other_units_may_begin_one_with_another_critic():
    first, other = algorithm("ppo"), algorithm("poca", normalize_values=False)
    first.update(evaluated(first, rewarded()).steps, 0)
    misfits = other.initialize_from(first.state_dict())
    assert any("embed_waiting" in text for text in misfits)
    assert torch.equal(other.network.actions.weight, first.network.actions.weight)
