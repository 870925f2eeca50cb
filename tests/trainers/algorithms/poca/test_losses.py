"""The losses of POCA, and what they differentiate to, are the reference's."""

import pytest
import torch
from goldendata import array, cases
from lanista.trainers.algorithms.poca.poca import BASELINE_WEIGHT
from lanista.trainers.algorithms.ppo.losses import VALUE_WEIGHT, clipped_value_loss
from ppo_objective import ppo_objective


def tensor(values):
    return torch.from_numpy(array(values)).float()


def columns(by_signal):
    return torch.stack([tensor(v) for v in by_signal.values()], 1)


def components(given, continuous, discrete):
    parts = []
    if given.get(continuous) is not None:
        parts.append(tensor(given[continuous]))
    if given.get(discrete) is not None:
        branches = tensor(given[discrete])
        parts.append(branches.T if "per_branch" in discrete else branches)
    return torch.cat(parts, 1)


@pytest.mark.parametrize("case", cases("losses", "poca_update"))
def test_update_losses_and_gradients(case):
    given, expected = case["inputs"], case["expected"]
    stats, gradients = expected["stats"], expected["gradients"]
    log_probs = components(given, "log_probs_continuous", "log_probs_discrete_per_branch").requires_grad_()
    entropy, values = tensor(given["entropy"]).requires_grad_(), columns(given["values"]).requires_grad_()
    baselines = columns(given["baselines"]).requires_grad_()
    total, policy, value = ppo_objective(
        log_probs,
        components(given, "old_log_probs_continuous", "old_log_probs_discrete"),
        tensor(given["advantages"]).unsqueeze(1),
        entropy,
        values,
        columns(given["returns"]),
        stats["Policy/Epsilon"],
        stats["Policy/Beta"],
        tensor(given["loss_mask"]),
    )
    epsilon, mask = stats["Policy/Epsilon"], tensor(given["loss_mask"])
    old, returns = columns(given["old_baselines"]), columns(given["returns"])
    baseline = clipped_value_loss(baselines, old, returns, epsilon, mask)
    total = total + VALUE_WEIGHT * BASELINE_WEIGHT * baseline
    total.backward()
    close = {"rtol": 1e-5, "atol": 1e-6}
    torch.testing.assert_close(total.item(), expected["total_loss"], **close)
    torch.testing.assert_close(abs(policy.item()), stats["Losses/Policy Loss"], **close)
    torch.testing.assert_close(value.item(), stats["Losses/Value Loss"], **close)
    torch.testing.assert_close(baseline.item(), stats["Losses/Baseline Loss"], **close)
    torch.testing.assert_close(entropy.grad, tensor(gradients["entropy"]), **close)
    torch.testing.assert_close(values.grad, columns(gradients["values"]), **close)
    torch.testing.assert_close(baselines.grad, columns(gradients["baselines"]), **close)
    wanted = components(gradients, "log_probs_continuous", "log_probs_discrete_per_branch")
    torch.testing.assert_close(log_probs.grad, wanted, **close)
