"""Actions drawn in arrays are those of the action distributions, to the last bit."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.trainers.networks.fast.sampling import ActionSampler, JointSampler
from lanista.trainers.networks.modules.distributions import EPSILON, explore
from lanista.trainers.networks.modules.heads import ActionHead, DeterministicHead, QHead
from mlagents_envs.base_env import ActionSpec

BRANCHES = st.lists(st.integers(1, 7), min_size=1, max_size=4)
AGENTS = st.one_of(st.just(1), st.integers(2, 40))
SEED = st.integers(0, 2**32 - 1)


def head_of(size, branches, seed, **kinds):
    spec = ActionSpec(size, tuple(branches))
    head = ActionHead(3, spec, torch.Generator().manual_seed(seed), **kinds).requires_grad_(False)
    head.log_sigma.normal_(generator=torch.Generator().manual_seed(seed))
    return head


def columns_of(head, agents, seed, spread=2.0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((agents, head.weight.shape[1]), generator=generator) * spread


def masks(branches, agents, seed, share):
    """Random ones; share 1 forbids all actions but one of every branch."""
    random = np.random.default_rng(seed)
    parts = [random.random((agents, size)) < share for size in branches]
    for part in parts:
        part[np.arange(agents), random.integers(part.shape[1], size=agents)] = False
    return np.concatenate(parts, 1)


def plain(head, columns, forbidden, generator, exploration):
    """By the action distribution itself."""
    distribution = head.distribution(columns, None if forbidden is None else torch.from_numpy(forbidden))
    if exploration:
        distribution = explore(distribution, exploration)
    actions = distribution.deterministic() if generator is None else distribution.sample(generator)
    return (
        actions.continuous,
        distribution.to_engine(actions.continuous),
        actions.discrete.int(),
        distribution.log_probs(actions),
        distribution.entropy(),
    )


def rounding_of_actions(head, columns, actions):
    """What rounding to float32 changes in log probabilities: the distribution finds an action's deviation by
    subtracting the mean from the rounded action, the sampler has it from its noise."""
    deviation = (actions - columns).numpy()
    return np.abs(deviation) * np.exp(-2.0 * head.log_sigma.numpy()) * np.spacing(np.abs(actions.numpy()))


@torch.inference_mode()
def check(head, columns, forbidden=None, seed=None, exploration=0.0, exact=True):
    """Two draws in succession, since the second shows whether the first took its share of numbers."""
    sampler = ActionSampler(head)
    streams = [None if seed is None else torch.Generator().manual_seed(seed) for _ in range(2)]
    for _ in range(2):
        drawn = sampler(columns, forbidden, streams[0], exploration)
        wanted = plain(head, columns, forbidden, streams[1], exploration)
        for name, found, part in zip(drawn._fields, drawn, wanted, strict=True):
            assert found.dtype == part.numpy().dtype and found.shape == tuple(part.shape), name
            if exact:
                np.testing.assert_array_equal(found, part.numpy(), name)
            else:
                rounding = rounding_of_actions(head, columns, wanted[0]) if name == "log_probs" else 0.0
                difference = np.maximum(np.abs(found - part.numpy()) - rounding, 0.0)
                np.testing.assert_array_less(difference, 1e-6 + 1e-5 * np.abs(part.numpy()), name)
    return drawn


KINDS = {
    "discrete": (0, {}),
    "mixed": (2, {}),
    "squashed": (2, {"squashed": True}),
    "deviations of the state": (3, {"sigma_of_state": True}),
    "as SAC's": (1, {"squashed": True, "sigma_of_state": True}),
}


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=40)
@given(BRANCHES, AGENTS, SEED, st.sampled_from([None, 0.0, 0.4, 1.0]), st.booleans(), st.floats(0.0, 1.0))
def test_draws_equal_those_of_the_distribution(kind, branches, agents, seed, share, likeliest, exploration):
    size, keys = KINDS[kind]
    head = head_of(size, branches, seed, **keys)
    forbidden = None if share is None else masks(branches, agents, seed, share)
    given_seed = None if likeliest else seed
    check(head, columns_of(head, agents, seed), forbidden, given_seed)
    check(head, columns_of(head, agents, seed, 20.0), forbidden, given_seed, exploration)


@pytest.mark.parametrize("kind", [kind for kind, (size, keys) in KINDS.items() if keys])
@settings(deadline=None, max_examples=30)
@given(AGENTS, SEED, st.booleans())
def test_continuous_draws_equal_those_of_the_distribution(kind, agents, seed, likeliest):
    size, keys = KINDS[kind]
    head = head_of(size, (), seed, **keys)
    check(head, columns_of(head, agents, seed), seed=None if likeliest else seed)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 5), AGENTS, SEED, st.booleans())
def test_gaussians_alone_round_as_in_earlier_releases(size, agents, seed, likeliest):
    """In NumPy's way, last bits apart like the distribution: runs with a seed repeat across releases."""
    head = head_of(size, (), seed)
    columns = columns_of(head, agents, seed)
    check(head, columns, seed=None if likeliest else seed, exact=False)
    drawn = ActionSampler(head)(columns, None, None if likeliest else torch.Generator().manual_seed(seed))
    noise = torch.randn((agents, size), generator=torch.Generator().manual_seed(seed)).numpy()
    log_sigma, mu = head.log_sigma.numpy(), columns.numpy()
    sigma = np.exp(log_sigma)
    deviation = (0 * noise if likeliest else noise) * sigma
    log_probs = deviation * deviation / -(2 * sigma * sigma + EPSILON)
    log_probs -= np.log(sigma + EPSILON) + 0.5 * math.log(2 * math.pi)
    np.testing.assert_array_equal(drawn.continuous, mu + deviation)
    np.testing.assert_array_equal(drawn.for_engine, np.clip(mu + deviation, -3, 3) / 3)
    np.testing.assert_array_equal(drawn.log_probs, log_probs)


def test_a_mask_that_leaves_one_action_takes_it():
    head = head_of(1, (4, 2, 1), 0)
    forbidden = masks((4, 2, 1), 12, 0, 1.0)
    drawn = check(head, columns_of(head, 12, 0), forbidden, seed=3)
    rows = np.arange(12)
    for branch, start in enumerate((0, 4, 6)):
        assert not forbidden[rows, start + drawn.discrete[:, branch]].any()
    np.testing.assert_allclose(drawn.log_probs[:, 1:], 0.0, atol=1e-6)


@pytest.mark.parametrize("size", [0, 2])
def test_numbers_that_are_none_show(size):
    """The policy looks at columns and continuous actions; a NaN must not spread to other agents."""
    head = head_of(size, (3, 2), 0)
    columns = columns_of(head, 5, 0)
    columns[2] = math.nan
    drawn = check(head, columns, seed=1)
    assert np.isnan(drawn.log_probs).any(1).tolist() == [False, False, True, False, False]


def test_log_sigmas_are_followed():
    head = head_of(2, (3,), 0)
    sampler, columns = ActionSampler(head), columns_of(head, 5, 0)
    for _ in range(2):
        with torch.inference_mode():
            drawn = sampler(columns, None, torch.Generator().manual_seed(1))
            wanted = plain(head, columns, None, torch.Generator().manual_seed(1), 0.0)
        np.testing.assert_array_equal(drawn.continuous, wanted[0].numpy())
        np.testing.assert_array_equal(drawn.entropy, wanted[-1].numpy())
        head.log_sigma += 0.5


@settings(deadline=None, max_examples=40)
@given(BRANCHES, AGENTS, SEED, st.sampled_from([None, 0.5, 1.0]))
def test_greatest_values_are_those_of_the_distribution(branches, agents, seed, share):
    head = QHead(3, ActionSpec(0, tuple(branches)), 1).requires_grad_(False)
    values = columns_of(head, agents, seed).round()  # so that some are equal
    forbidden = None if share is None else masks(branches, agents, seed, share)
    mask = None if forbidden is None else torch.from_numpy(forbidden)
    wanted = head.distribution(values, mask).deterministic().discrete
    np.testing.assert_array_equal(ActionSampler(head).greatest(values, forbidden), wanted)


def test_no_actions_at_all_are_no_actions():
    drawn = ActionSampler(head_of(0, (), 0))(torch.zeros(4, 0), None, torch.Generator())
    assert [part.shape for part in drawn] == [(4, 0), (4, 0), (4, 0), (4, 0), (4,)]


def test_a_head_without_deviations_has_a_sampler():
    ActionSampler(DeterministicHead(3, ActionSpec(2, ())))


UNSQUASHED = {"continuous": (3, {}), **{kind: own for kind, own in KINDS.items() if "squashed" not in own[1]}}


@pytest.mark.parametrize("kind", UNSQUASHED)
@settings(deadline=None, max_examples=40)
@given(BRANCHES, st.lists(AGENTS, min_size=2, max_size=4), SEED, st.booleans(), st.booleans())
def test_joint_draws_equal_those_of_each_head(kind, branches, counts, seed, masked, likeliest):
    """Also of the next tick, whose heads have other deviations, from the streams as they then stand."""
    size, keys = UNSQUASHED[kind]
    branches = [] if kind == "continuous" else branches
    heads = [head_of(size, branches, seed + k, **keys) for k in range(len(counts))]
    alone, together = (
        [None if likeliest else torch.Generator().manual_seed(k) for k in range(len(counts))]
        for _ in range(2)
    )
    samplers = [ActionSampler(head) for head in heads]
    assert len({sampler.kind for sampler in samplers} - {None}) == 1
    joint = JointSampler([ActionSampler(head) for head in heads])
    with torch.inference_mode():
        for tick in range(3):
            columns = [columns_of(head, n, seed + tick) for head, n in zip(heads, counts, strict=True)]
            forbidden = [
                masks(branches, n, seed, 0.5) if masked and branches and k % 2 else None
                for k, n in enumerate(counts)
            ]
            drawn = joint(torch.cat(columns), list(counts), forbidden, together)
            wanted = [
                sampler(*each) for sampler, *each in zip(samplers, columns, forbidden, alone, strict=True)
            ]
            for name, found, parts in zip(drawn._fields, drawn, zip(*wanted, strict=True), strict=True):
                np.testing.assert_array_equal(found, np.concatenate(parts), name)
                assert found.dtype == parts[0].dtype
            for head in heads[1:]:
                if tick and head.log_sigma is not None and head.log_sigma.numel():
                    head.log_sigma.add_(0.1)


def test_squashed_heads_draw_by_themselves():
    """tanh rounds differently by the place of a row in a batch."""
    assert ActionSampler(head_of(2, (), 0, squashed=True)).kind is None
