"""The losses of PPO and POCA and their gradients equal the reference's."""

import pytest
import torch
from goldendata import cases, kinds
from lanista.trainers.algorithms.poca.poca import BASELINE_WEIGHT
from lanista.trainers.algorithms.ppo.losses import (
    clipped_surrogate,
    clipped_value_loss,
    masked_mean,
    ratio_statistics,
)
from ppo_objective import VALUE_WEIGHT, components, ppo_objective, tensor


def signals(value):
    return torch.stack([tensor(v) for v in value.values()], dim=1)


def test_every_kind_is_accounted_for():
    here = {"masked_mean", "policy_loss", "value_loss", "ppo_update", "poca_update"}
    assert kinds("losses") <= here | {"bc_loss"}  # ../imitation


@pytest.mark.parametrize("case", cases("losses", "masked_mean"))
def test_masked_mean(case):
    mask = case["inputs"]["mask"]
    got = masked_mean(tensor(case["inputs"]["x"]), None if mask is None else tensor(mask))
    torch.testing.assert_close(float(got), float(case["expected"]["mean"]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", cases("losses", "policy_loss"))
def test_policy_loss(case):
    i = case["inputs"]
    ratio = (tensor(i["log_probs"]) - tensor(i["old_log_probs"])).exp()
    got = -clipped_surrogate(ratio, tensor(i["advantages"]).unsqueeze(1), i["epsilon"], tensor(i["mask"]))
    torch.testing.assert_close(float(got), case["expected"]["loss"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mask", [None, [True, True, False]])
def test_ratio_statistics(mask):
    ratio = torch.tensor([[1.0, 1.3], [0.9, 0.5], [2.0, 0.1]])
    rows = ratio if mask is None else ratio[:2]
    kl, fraction = ratio_statistics(ratio.log(), ratio, 0.2, mask and torch.tensor(mask))
    assert kl.item() == pytest.approx((rows - 1.0 - rows.log()).mean().item())
    assert fraction.item() == pytest.approx(4 / 6 if mask is None else 2 / 4)


@pytest.mark.parametrize("case", cases("losses", "value_loss"))
def test_clipped_value_loss(case):
    i = case["inputs"]
    got = clipped_value_loss(
        signals(i["values"]), signals(i["old_values"]), signals(i["returns"]), i["epsilon"], tensor(i["mask"])
    )
    torch.testing.assert_close(float(got), case["expected"]["loss"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", cases("losses", "ppo_update", "poca_update"))
def test_update_losses_and_gradients(case):
    i, expected = case["inputs"], case["expected"]
    stats, gradients = expected["stats"], expected["gradients"]
    epsilon, mask, returns = stats["Policy/Epsilon"], tensor(i["loss_mask"]), signals(i["returns"])
    log_probs = components(i, "log_probs_continuous", "log_probs_discrete_per_branch").requires_grad_()
    entropy, values = tensor(i["entropy"]).requires_grad_(), signals(i["values"]).requires_grad_()
    old = components(i, "old_log_probs_continuous", "old_log_probs_discrete")
    advantages, beta = tensor(i["advantages"]).unsqueeze(1), stats["Policy/Beta"]
    total, policy, value = ppo_objective(
        log_probs, old, advantages, entropy, values, returns, epsilon, beta, mask
    )
    baselines, baseline = None, torch.zeros(())
    if "baselines" in i:
        baselines = signals(i["baselines"]).requires_grad_()
        baseline = clipped_value_loss(baselines, signals(i["old_baselines"]), returns, epsilon, mask)
        total = total + VALUE_WEIGHT * BASELINE_WEIGHT * baseline
    total.backward()
    gradients["advantages"] = i["advantages"]
    wanted = components(gradients, "log_probs_continuous", "log_probs_discrete_per_branch")
    pairs = [
        (total.item(), expected["total_loss"]),
        (abs(policy.item()), stats["Losses/Policy Loss"]),
        (value.item(), stats["Losses/Value Loss"]),
        (baseline.item(), stats.get("Losses/Baseline Loss", 0.0)),
        (values.grad, signals(gradients["values"])),
        (entropy.grad, tensor(gradients["entropy"])),
        (log_probs.grad, wanted),
    ]
    if baselines is not None:
        pairs.append((baselines.grad, signals(gradients["baselines"])))
    for found, wanted in pairs:
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
