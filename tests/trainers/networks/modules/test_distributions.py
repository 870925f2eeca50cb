"""Action distributions equal the reference's, sample what they say, and keep forbidden actions out."""

import numpy as np
import pytest
import torch
from goldendata import array, cases, kinds
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.trainers.networks.modules.distributions import (
    BLOCKED_LOGIT,
    ActionDistribution,
    Actions,
    Branches,
    clamp_log_sigma,
    gaussian_entropy,
    gaussian_log_prob,
)

BUILT = {"gaussian", "tanh_gaussian", "multi_discrete", "action_model", "env_action", "log_sigma_clamp"}


def tensor(value, dtype=np.float32):
    return torch.from_numpy(array(value, dtype))


def assert_close(got, expected):
    np.testing.assert_allclose(got.numpy(), array(expected), rtol=1e-5, atol=1e-5)


def discrete(logits, sizes, mask=None):
    nothing = torch.empty(len(logits), 0)
    return ActionDistribution(nothing, torch.empty(0), logits, Branches(sizes), mask)


def test_every_kind_of_reference_data_is_run_or_waits():
    assert kinds("distributions") <= BUILT


@pytest.mark.parametrize("case", cases("distributions", "gaussian"))
def test_gaussian(case):
    given_, expected = case["inputs"], case["expected"]
    mu, log_sigma, actions = (tensor(given_[key]) for key in ("mu", "log_sigma", "actions"))
    assert_close(gaussian_log_prob(mu, log_sigma, actions), expected["log_probs"])
    entropy = gaussian_entropy(log_sigma).expand(len(mu)).unsqueeze(1)
    assert_close(entropy, expected["entropy"])
    logits = torch.empty(len(mu), 0)
    distribution = ActionDistribution(mu, log_sigma, logits, Branches(()))
    assert_close(distribution.deterministic().continuous, expected["deterministic"])
    assert_close(distribution.log_probs(Actions(actions, torch.empty(len(mu), 0))), expected["log_probs"])


@pytest.mark.parametrize("case", cases("distributions", "tanh_gaussian"))
def test_squashed_gaussian(case):
    given_, expected = case["inputs"], case["expected"]
    mu, log_sigma, actions = (tensor(given_[key]) for key in ("mu", "log_sigma", "actions"))
    nothing = torch.empty(len(mu), 0)
    distribution = ActionDistribution(mu, log_sigma, nothing, Branches(()), None, squashed=True)
    # Pitfall C4: at the very ends, and for deterministic actions outside of -1 to 1, the reference has NaN.
    inside = actions.abs() < 1.0
    got, wanted = distribution.log_probs(Actions(actions, nothing)), array(expected["log_probs"])
    np.testing.assert_allclose(got[inside], wanted[inside.numpy()], rtol=1e-4, atol=1e-4)
    assert got.isfinite().all()
    entropy = distribution.entropy().numpy()
    np.testing.assert_allclose(entropy, array(expected["entropy"]).mean(1), rtol=1e-5, atol=1e-5)
    deterministic = distribution.deterministic().continuous
    np.testing.assert_allclose(deterministic, np.tanh(array(expected["deterministic"])), rtol=1e-5, atol=1e-5)
    assert torch.equal(distribution.to_engine(deterministic), deterministic)


@pytest.mark.parametrize("case", cases("distributions", "multi_discrete"))
def test_multi_discrete(case):
    given_, expected = case["inputs"], case["expected"]
    logits = torch.cat([tensor(branch) for branch in given_["logits_per_branch"]], 1)
    distribution = discrete(logits, given_["branches"], tensor(given_["allow_mask"]) == 0)
    actions = Actions(torch.empty(len(logits), 0), tensor(given_["actions"], np.int64))
    assert_close(distribution.log_probs(actions), expected["flattened"])
    assert_close(
        distribution.branches.flat(distribution.log_probabilities), expected["all_log_probs_concatenated"]
    )
    assert_close(distribution.entropy(), expected["entropy_sum"])
    likeliest = np.concatenate([array(rows, np.int64) for rows in expected["deterministic_per_branch"]], 1)
    np.testing.assert_array_equal(distribution.deterministic().discrete.numpy(), likeliest)


@pytest.mark.parametrize("case", cases("distributions", "action_model"))
def test_continuous_and_discrete_together(case):
    given_, expected = case["inputs"], case["expected"]
    distribution = ActionDistribution(
        tensor(given_["mu"]),
        tensor(given_["log_sigma"]),
        torch.cat([tensor(branch) for branch in given_["logits_per_branch"]], 1),
        Branches(given_["branches"]),
    )
    actions = Actions(tensor(given_["continuous_actions"]), tensor(given_["discrete_actions"], np.int64))
    assert_close(distribution.log_probs(actions), expected["flattened_log_probs"])
    assert_close(distribution.entropy(), expected["entropy"])


@pytest.mark.parametrize("case", cases("distributions", "env_action"))
def test_actions_for_the_engine(case):
    continuous = case["inputs"].get("continuous")
    if continuous:
        raw = tensor(continuous)
        none = torch.empty(len(raw), 0)
        squashed = case["inputs"]["trainer"] == "sac"  # whose actions are in range already
        got = ActionDistribution(raw, raw[0], none, Branches(()), None, squashed).to_engine(raw)
        np.testing.assert_allclose(got.numpy(), array(case["expected"]["continuous"]), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("case", cases("distributions", "log_sigma_clamp"))
def test_state_dependent_log_sigma_is_clamped(case):
    given_ = case["inputs"]
    raw = tensor(given_["encoding"]) @ tensor(given_["log_sigma_weight"]).T + tensor(given_["log_sigma_bias"])
    np.testing.assert_allclose(clamp_log_sigma(raw).exp(), array(case["expected"]["std"]), rtol=1e-4)


branch_sizes = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@settings(deadline=None, max_examples=50)
@given(branch_sizes, st.integers(0, 2**32 - 1))
def test_branches_together_equal_branches_one_by_one(sizes, seed):
    """The rectangular layout is for speed only: values and gradients are those of separate softmaxes."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(6, sum(sizes), generator=generator, requires_grad=True)
    mask = torch.rand(6, sum(sizes), generator=generator) < 0.4
    actions = torch.stack([torch.randint(s, (6,), generator=generator) for s in sizes], 1)
    weights = torch.randn(6, len(sizes), generator=generator)
    distribution = discrete(logits, sizes, mask)
    log_probs = distribution.log_probs(Actions(torch.empty(6, 0), actions))
    gradient = torch.autograd.grad((log_probs * weights).sum() + distribution.entropy().sum(), logits)[0]

    allowed = (~mask).float()
    masked = logits * allowed + BLOCKED_LOGIT * (1 - allowed)
    total, columns = 0.0, []
    for k, branch in enumerate(masked.split(list(sizes), 1)):
        p = branch.softmax(1)
        columns.append((p + 1e-7).log().gather(1, actions[:, k : k + 1]))
        total = total - (p * (p + 1e-7).log()).sum()
    expected = torch.cat(columns, 1)
    torch.testing.assert_close(log_probs, expected)
    torch.testing.assert_close(gradient, torch.autograd.grad((expected * weights).sum() + total, logits)[0])


@settings(deadline=None, max_examples=50)
@given(branch_sizes, st.integers(0, 2**32 - 1))
def test_sampled_actions_exist_and_are_allowed(sizes, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(40, sum(sizes), generator=generator) * 5
    mask = torch.rand(40, sum(sizes), generator=generator) < 0.5
    starts = np.cumsum([0, *sizes[:-1]])
    mask[:, starts] = False
    for actions in (
        discrete(logits, sizes, mask).sample(generator),
        discrete(logits, sizes, mask).deterministic(),
    ):
        for k, size in enumerate(sizes):
            chosen = actions.discrete[:, k]
            assert ((chosen >= 0) & (chosen < size)).all()
            assert not mask.gather(1, (starts[k] + chosen)[:, None]).any()


def test_samples_are_distributed_as_the_probabilities_say():
    rows = 20000
    logits = torch.tensor([[0.0, 1.0, -1.0, 2.0, 0.5]]).expand(rows, 5)
    mask = torch.tensor([[False, False, False, True, False]]).expand(rows, 5)
    distribution = ActionDistribution(
        torch.full((rows, 1), 0.5), torch.tensor([-0.7]), logits, Branches((3, 2)), mask
    )
    actions = distribution.sample(torch.Generator().manual_seed(3))
    frequencies = torch.stack([(actions.discrete[:, 0] == i).float().mean() for i in range(3)])
    torch.testing.assert_close(frequencies, logits[0, :3].softmax(0), atol=0.015, rtol=0)
    assert (actions.discrete[:, 1] == 1).all()
    assert actions.continuous.mean().item() == pytest.approx(0.5, abs=0.02)
    assert actions.continuous.std().item() == pytest.approx(np.exp(-0.7), abs=0.02)


def test_a_generator_repeats_its_samples():
    distribution = ActionDistribution(torch.zeros(4, 2), torch.zeros(2), torch.zeros(4, 5), Branches((3, 2)))
    first, again = (distribution.sample(torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(first.continuous, again.continuous)
    assert torch.equal(first.discrete, again.discrete)


@pytest.mark.parametrize("size, sizes", [(2, ()), (0, (3, 2)), (1, (4,)), (0, ())])
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_shapes(size, sizes, rows):
    distribution = ActionDistribution(
        torch.zeros(rows, size), torch.zeros(size), torch.zeros(rows, sum(sizes)), Branches(sizes)
    )
    for actions in (distribution.sample(), distribution.deterministic()):
        assert actions.continuous.shape == (rows, size)
        assert actions.discrete.shape == (rows, len(sizes))
        assert actions.discrete.dtype == torch.int64
        assert distribution.log_probs(actions).shape == (rows, size + len(sizes))
    assert distribution.entropy().shape == (rows,)
    assert distribution.entropy().isfinite().all()


def test_int32_actions_are_taken_as_they_come_from_the_engine():
    distribution = discrete(torch.randn(3, 2), (2,))
    actions = torch.tensor([[0], [1], [1]], dtype=torch.int32)
    nothing = torch.empty(3, 0)
    assert torch.equal(
        distribution.log_probs(Actions(nothing, actions)),
        distribution.log_probs(Actions(nothing, actions.long())),
    )
