"""SAC's losses and their gradients equal the reference's, but where they are better on purpose."""

import pytest
import torch
from goldendata import array, cases, kinds
from lanista.trainers.algorithms.sac.losses import (
    BranchSums,
    LogProbs,
    entropy_penalty,
    expected_q,
    policy_loss,
    polyak_update,
    q_targets,
    squared_error,
    temperature_loss,
    value_targets,
)
from lanista.trainers.networks.critics import Coefficients, Temperatures

CLOSE = {"rtol": 1e-5, "atol": 1e-6}
HERE = {"losses", "condense", "soft_update"}
ELSEWHERE = {"update_loop"}


def test_every_kind_of_reference_data_is_run() -> None:
    assert kinds("sac") <= HERE | ELSEWHERE


def tensor(value):
    return torch.from_numpy(array(value)).float()


def signals(value):
    """One tensor of the signals', side by side behind the rows: [B, S, ...]."""
    return torch.stack([tensor(v) for v in value.values()], 1)


def close(got, expected):
    torch.testing.assert_close(torch.as_tensor(got).float(), tensor(expected), **CLOSE)


class Given:
    """The inputs of a case as the losses take them."""

    def __init__(self, inputs) -> None:
        self.sizes = inputs["discrete_branches"]
        self.branches = BranchSums(self.sizes)
        self.continuous = self.discrete = self.p = None
        if inputs["continuous_size"]:
            self.continuous = tensor(inputs["log_probs_continuous"]).requires_grad_()
        if self.sizes:
            flat = torch.cat([tensor(branch) for branch in inputs["all_log_probs_per_branch"]], 1)
            self.discrete = flat.requires_grad_()
            self.p = flat.detach().exp() / len(self.sizes)
        self.q = torch.stack([self.of_policy(inputs[f"q{k}_of_policy"]) for k in (1, 2)])
        self.taken = [self.column(inputs[f"q{k}_of_taken_action"]).requires_grad_() for k in (1, 2)]
        self.log_alpha = tensor(inputs["log_alpha_continuous"])[0].requires_grad_()
        self.log_alphas = tensor(inputs["log_alpha_discrete"]).requires_grad_()
        self.alpha = Coefficients(self.log_alpha.detach().exp(), self.log_alphas.detach().exp())
        self.log_probs = LogProbs(self.continuous, self.discrete)
        self.values = signals(inputs["values"]).requires_grad_()
        self.real = torch.tensor(inputs["mask"])
        self.targets = q_targets(
            signals(inputs["rewards"]), self.discounts(inputs), signals(inputs["target_values"])
        )

    def of_policy(self, value):
        q = signals(value)
        return q if self.sizes else q.unsqueeze(-1)

    @staticmethod
    def column(value):
        q = signals(value)
        return q.squeeze(-1) if q.dim() == 3 else q

    @staticmethod
    def discounts(inputs):
        done = tensor(inputs["dones"])
        going_on = torch.ones_like(done)
        columns = [
            signal["gamma"] * (1 - done if signal["uses_done"] else going_on)
            for signal in inputs["signals"].values()
        ]
        return torch.stack(columns, 1)

    def gradient(self, loss, of):
        return torch.autograd.grad(loss, of, retain_graph=True, allow_unused=True)[0]


def masks_that_mask(given, loss_of):
    """Pitfall C6: there padding counts like any step, unless there is nothing else; here it never does."""
    got = loss_of(given.real)
    rows = given.real.nonzero().squeeze(1)
    if not len(rows):
        assert got == 0.0
    return loss_of(None if len(rows) else given.real)


@pytest.mark.parametrize("case", cases("sac", "losses"))
def test_q_losses(case):
    given, expected = Given(case["inputs"]), case["expected"]
    for k, q in enumerate(given.taken):
        loss = masks_that_mask(given, lambda real, q=q: squared_error(q, given.targets, real=real))
        close(loss, expected[f"q{k + 1}_loss"])
        if k == 0:
            got = given.gradient(loss, q)
            wanted = Given.column(expected["grad_q1_of_taken_action"])
            torch.testing.assert_close(got, wanted, **CLOSE)


@pytest.mark.parametrize("case", cases("sac", "losses"))
def test_value_loss(case):
    given, expected = Given(case["inputs"]), case["expected"]
    alpha = given.alpha
    if given.continuous is not None and given.discrete is not None:
        # Pitfall C5: beside discrete actions, certainty of continuous ones is rewarded there.
        alpha = alpha._replace(continuous=-alpha.continuous)
    with torch.no_grad():
        penalty = entropy_penalty(alpha, given.log_probs, given.branches)
        targets = value_targets(expected_q(given.q, given.p), penalty)
    loss = masks_that_mask(given, lambda real: squared_error(given.values, targets, real=real))
    close(loss, expected["value_loss"])
    wanted = signals(expected["grad_values_of_value_loss"])
    torch.testing.assert_close(given.gradient(loss, given.values), wanted, **CLOSE)


@pytest.mark.parametrize("case", cases("sac", "losses"))
def test_padding_does_not_count(case):
    """Pitfall C6: the losses of Q and V are those of the real rows alone."""
    given = Given(case["inputs"])
    for x in (given.taken[0], given.values):
        loss = squared_error(x, given.targets, real=given.real)
        rows = given.real
        if rows.any():
            torch.testing.assert_close(loss, squared_error(x[rows], given.targets[rows]))


@pytest.mark.parametrize("case", cases("sac", "losses"))
def test_policy_loss(case):
    given, expected = Given(case["inputs"]), case["expected"]
    q = given.q[0].clone().requires_grad_()
    loss = policy_loss(given.alpha, given.log_probs, q, given.branches, given.real)
    close(loss, expected["policy_loss"])
    wanted = expected["grad_of_policy_loss"]
    torch.testing.assert_close(given.gradient(loss, q), given.of_policy(wanted["q1_of_policy"]), **CLOSE)
    if given.continuous is not None:
        close(given.gradient(loss, given.continuous), wanted["log_probs_continuous"])
    if given.discrete is not None:
        flat = torch.cat([tensor(branch) for branch in wanted["all_log_probs_per_branch"]], 1)
        torch.testing.assert_close(given.gradient(loss, given.discrete), flat, **CLOSE)


@pytest.mark.parametrize("case", cases("sac", "losses"))
def test_temperature_loss_and_its_targets(case):
    inputs, expected = case["inputs"], case["expected"]
    given = Given(inputs)
    t = Temperatures(inputs["continuous_size"], given.sizes, inputs["initial_alpha"])
    assert t.target_continuous == expected["target_entropy_continuous"] or not inputs["continuous_size"]
    close(t.targets_discrete, expected["target_entropy_discrete"])
    close(t.alpha.continuous, inputs["initial_alpha"])
    log_alpha = Coefficients(given.log_alpha, given.log_alphas)
    loss = temperature_loss(log_alpha, t.entropies, given.log_probs, given.branches, given.real)
    close(loss, expected["entropy_loss"])
    wanted = expected["grad_of_entropy_loss"]
    if given.continuous is not None:
        close(given.gradient(loss, given.log_alpha), wanted["log_alpha_continuous"][0])
    if given.discrete is not None:
        close(given.gradient(loss, given.log_alphas), wanted["log_alpha_discrete"])
        assert given.gradient(loss, given.discrete) is None


@pytest.mark.parametrize("case", cases("sac", "condense"))
def test_the_value_of_chosen_discrete_actions(case):
    inputs = case["inputs"]
    shares = BranchSums(inputs["branches"]).taken_weights(torch.tensor(inputs["discrete_actions"]))
    got = expected_q(tensor(inputs["q"]).unsqueeze(1), shares)
    close(got, case["expected"]["q_of_actions"])


@pytest.mark.parametrize("case", cases("sac", "soft_update"))
def test_the_target_follows(case):
    inputs = case["inputs"]
    for source, target, wanted in zip(
        inputs["source"], inputs["target"], case["expected"]["target"], strict=True
    ):
        found = tensor(target)
        polyak_update(found, tensor(source), inputs["tau"])
        close(found, wanted)
