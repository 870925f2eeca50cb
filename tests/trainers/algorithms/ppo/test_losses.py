"""PPO's losses and their gradients equal the reference's."""

import pytest
import torch
from goldendata import array, cases, kinds
from lanista.trainers.algorithms.ppo.losses import (
    clipped_surrogate,
    clipped_value_loss,
    masked_mean,
    ratio_statistics,
)
from ppo_objective import ppo_objective


def tensor(value):
    return torch.from_numpy(array(value))


def signals(value):
    return torch.stack([tensor(v) for v in value.values()], dim=1)


def test_every_kind_is_accounted_for():
    here = {"masked_mean", "policy_loss", "value_loss", "ppo_update"}
    elsewhere = {"poca_update": "../poca", "bc_loss": "../imitation"}
    assert kinds("losses") <= here | elsewhere.keys()


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


def components(inputs, continuous, discrete):
    """Continuous columns, then one column per branch; a part that the case lacks is empty."""
    rows = len(inputs["advantages"])
    parts = [
        tensor(p) if (p := inputs.get(key)) is not None else torch.zeros(rows, 0)
        for key in (continuous, discrete)
    ]
    if "per_branch" in discrete and inputs.get(discrete) is not None:
        parts[1] = parts[1].T
    return torch.cat(parts, dim=1)


@pytest.mark.parametrize("case", cases("losses", "ppo_update"))
def test_update_losses_and_gradients(case):
    i, expected = case["inputs"], case["expected"]
    log_probs = components(i, "log_probs_continuous", "log_probs_discrete_per_branch").requires_grad_()
    entropy = tensor(i["entropy"]).requires_grad_()
    values = signals(i["values"]).requires_grad_()
    total, policy, value = ppo_objective(
        log_probs,
        components(i, "old_log_probs_continuous", "old_log_probs_discrete"),
        tensor(i["advantages"]).unsqueeze(1),
        entropy,
        values,
        signals(i["returns"]),
        expected["stats"]["Policy/Epsilon"],
        expected["stats"]["Policy/Beta"],
        tensor(i["loss_mask"]),
    )
    total.backward()
    close = {"rtol": 1e-5, "atol": 1e-6}
    torch.testing.assert_close(total.item(), expected["total_loss"], **close)
    torch.testing.assert_close(abs(policy.item()), expected["stats"]["Losses/Policy Loss"], **close)
    torch.testing.assert_close(value.item(), expected["stats"]["Losses/Value Loss"], **close)
    gradients = expected["gradients"]
    torch.testing.assert_close(values.grad, signals(gradients["values"]), **close)
    torch.testing.assert_close(entropy.grad, tensor(gradients["entropy"]), **close)
    gradients["advantages"] = i["advantages"]
    torch.testing.assert_close(
        log_probs.grad,
        components(gradients, "log_probs_continuous", "log_probs_discrete_per_branch"),
        **close,
    )
