"""PPO's losses and their gradients equal the reference's and automatic differentiation's."""

import pytest
import torch
from goldendata import array, cases
from hypothesis import given
from hypothesis import strategies as st
from lanista.trainers.ppo.losses import clipped_value_loss, masked_mean, policy_loss, ppo_losses


def tensor(value):
    return torch.from_numpy(array(value))


def signals(value):
    return torch.stack([tensor(v) for v in value.values()], dim=1)


@pytest.mark.parametrize("case", cases("losses", "masked_mean"))
def test_masked_mean(case):
    mask = case["inputs"]["mask"]
    got = masked_mean(tensor(case["inputs"]["x"]), None if mask is None else tensor(mask))
    torch.testing.assert_close(float(got), float(case["expected"]["mean"]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", cases("losses", "policy_loss"))
def test_policy_loss(case):
    i = case["inputs"]
    got = policy_loss(
        tensor(i["log_probs"]),
        tensor(i["old_log_probs"]),
        tensor(i["advantages"]).unsqueeze(1),
        i["epsilon"],
        tensor(i["mask"]),
    )
    torch.testing.assert_close(float(got), case["expected"]["loss"], rtol=1e-5, atol=1e-6)


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
    losses = ppo_losses(
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
    losses.total.backward()
    close = {"rtol": 1e-5, "atol": 1e-6}
    torch.testing.assert_close(losses.total.item(), expected["total_loss"], **close)
    torch.testing.assert_close(abs(losses.policy.item()), expected["stats"]["Losses/Policy Loss"], **close)
    torch.testing.assert_close(losses.value.item(), expected["stats"]["Losses/Value Loss"], **close)
    gradients = expected["gradients"]
    torch.testing.assert_close(values.grad, signals(gradients["values"]), **close)
    torch.testing.assert_close(entropy.grad, tensor(gradients["entropy"]), **close)
    gradients["advantages"] = i["advantages"]
    torch.testing.assert_close(
        log_probs.grad,
        components(gradients, "log_probs_continuous", "log_probs_discrete_per_branch"),
        **close,
    )


def plain_total(log_probs, old, advantages, entropy, values, returns, epsilon, beta, mask):
    ratio = (log_probs - old).exp()
    surrogate = torch.minimum(ratio * advantages, ratio.clamp(1 - epsilon, 1 + epsilon) * advantages)
    error = torch.stack(
        [masked_mean((returns[:, s] - values[:, s]) ** 2, mask) for s in range(values.shape[1])]
    )
    return -masked_mean(surrogate, mask) + 0.5 * error.mean() - beta * masked_mean(entropy, mask)


@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 20),
    parts=st.integers(1, 4),
    signal_count=st.integers(1, 3),
    masked=st.booleans(),
)
def test_closed_form_gradient_is_the_automatic_one(seed, rows, parts, signal_count, masked):
    g = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=g)  # noqa: E731
    old, advantages, returns = draw(rows, parts), draw(rows, 1), draw(rows, signal_count)
    mask = (torch.rand(rows, generator=g) < 0.7).float() if masked else None
    start = [old + 0.3 * draw(rows, parts), draw(rows), draw(rows, signal_count)]
    ours = [x.clone().requires_grad_() for x in start]
    theirs = [x.clone().requires_grad_() for x in start]
    total = ppo_losses(ours[0], old, advantages, ours[1], ours[2], returns, 0.2, 0.01, mask).total
    plain = plain_total(theirs[0], old, advantages, theirs[1], theirs[2], returns, 0.2, 0.01, mask)
    total.backward()
    plain.backward()
    torch.testing.assert_close(total, plain, rtol=1e-4, atol=1e-5)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)
