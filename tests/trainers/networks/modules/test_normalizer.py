"""The running normalizer equals the reference's, and does not depend on how rows are batched."""

import numpy as np
import pytest
import torch
from goldendata import array, cases, kinds
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.trainers.networks.actor import Actor
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.networks.fast.acting import CachedNormalizer
from lanista.trainers.networks.modules.normalizer import Normalizer
from lanista.trainers.settings.models.networks import NetworkSettings
from referencenets import behavior_spec, load_normalizer

BUILT = {"normalizer", "copy", "trainer"}
WITH_AN_ACTOR = {"poca", "sac"}
"""Trainers whose critics read what the actor has normalized."""


def state(normalizer, part=slice(None)):
    return int(normalizer.steps), normalizer.mean[part].numpy(), normalizer.squares[part].numpy()


def assert_state(got, expected, largest=0.0, summed=0):
    """Float32 rounds a mean near zero by the `largest` number, and a sum by how many were `summed`."""
    steps, mean, squares = got
    epsilon = float(np.finfo(np.float32).eps)
    assert steps == expected["steps"]
    np.testing.assert_allclose(mean, array(expected["mean"]), rtol=1e-5, atol=max(1e-5, epsilon * largest))
    rtol = max(1e-5, epsilon * summed)
    np.testing.assert_allclose(squares, array(expected["variance"]), rtol=rtol, atol=1e-5)


def test_every_kind_of_reference_data_is_run():
    assert kinds("normalizer") <= BUILT


@pytest.mark.parametrize("case", cases("normalizer", "normalizer"))
def test_state_and_outputs_after_each_batch(case):
    given_ = case["inputs"]
    normalizer = Normalizer(given_["features"])
    probes = torch.from_numpy(array(given_["probe_rows"]))
    largest = max((np.abs(array(batch)).max(initial=0.0) for batch in given_["batches"]), default=0.0)
    seen = 0
    for expected in case["expected"]["states"]:
        for batch in given_["batches"][seen : expected["after_batch"] + 1]:
            normalizer.update(torch.from_numpy(array(batch)))
        seen = max(seen, expected["after_batch"] + 1)
        assert_state(state(normalizer), expected, largest, expected["steps"])
        np.testing.assert_allclose(
            normalizer(probes).numpy(), array(expected["outputs"]), rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("case", cases("normalizer", "copy"))
def test_copy(case):
    source_state = case["inputs"]["source_state"]
    source, copy = (Normalizer(len(source_state["mean"])) for _ in range(2))
    load_normalizer(source, [source_state])
    copy.load_state_dict(source.state_dict())
    assert_state(state(copy), case["expected"]["copied_state"])
    source.update(torch.ones(1, len(source_state["mean"])))
    assert_state(state(copy), case["expected"]["copied_state"])


@pytest.mark.parametrize("case", cases("normalizer", "trainer"))
def test_a_trainer_normalizes_the_right_observations(case):
    """Only vectors are normalized; the others are left out here."""
    given_ = case["inputs"]
    spec = behavior_spec(given_["spec"])
    vectors = [i for i, o in enumerate(spec.observation_specs) if len(o.shape) == 1]
    spec = spec._replace(observation_specs=[spec.observation_specs[i] for i in vectors])
    network_settings = NetworkSettings(normalize=True, goal_conditioning_type="none")
    if given_["trainer"] in WITH_AN_ACTOR:
        network = Actor(spec, network_settings)
    else:
        network = ActorCritic(spec, network_settings, ["extrinsic"], given_.get("shared_critic", False))
    for trajectory, expected in zip(given_["trajectories"], case["expected"]["after_each"], strict=True):
        obs = trajectory["obs_per_observation"]
        network.update_normalization([torch.from_numpy(array(obs[i])) for i in vectors])
        start = 0
        for i, observation in zip(vectors, spec.observation_specs, strict=True):
            part = slice(start, start + observation.shape[0])
            start = part.stop
            for part_of_network in ("actor", "critic"):
                assert_state(state(network.encoder.normalizers[0], part), expected[part_of_network][str(i)])


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_batches_of_any_size_give_the_same_state(sizes, seed):
    rows = torch.randn(sum(sizes), 3, generator=torch.Generator().manual_seed(seed)) * 3 + 1
    at_once, in_parts = Normalizer(3), Normalizer(3)
    at_once.update(rows)
    for part in rows.flip(0).split(sizes):
        in_parts.update(part)
    assert at_once.steps == in_parts.steps
    torch.testing.assert_close(at_once.mean, in_parts.mean, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(at_once.squares, in_parts.squares, rtol=1e-4, atol=1e-4)


def test_twice_equals_two_updates():
    rows = torch.randn(5, 2, generator=torch.Generator().manual_seed(1))
    twice, two = Normalizer(2), Normalizer(2)
    twice.update(rows, times=2)
    two.update(rows)
    two.update(rows)
    torch.testing.assert_close(twice.state_dict(), two.state_dict())


def rows_of(seed, count=6, size=3):
    """Some that are far out, and some that are no numbers."""
    rows = torch.randn(count, size, generator=torch.Generator().manual_seed(seed)) * 10
    rows[0, 0], rows[-1, -1] = float("nan"), float("inf")
    return rows


def assert_same_numbers(cached, normalizer, seed):
    rows = rows_of(seed)
    kept = rows.clone()
    torch.testing.assert_close(cached(rows), normalizer(rows), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(rows, kept, rtol=0, atol=0, equal_nan=True)


CHANGES = {
    "update": lambda normalizer, other: normalizer.update(rows_of(7)[1:-1]),
    "load": lambda normalizer, other: normalizer.load_state_dict(other.state_dict()),
    "assign": lambda normalizer, other: normalizer.load_state_dict(other.state_dict(), assign=True),
    "only the mean": lambda normalizer, other: normalizer.mean.add_(1.0),
    "only the squares": lambda normalizer, other: normalizer.squares.mul_(2.0),
    "only the steps": lambda normalizer, other: normalizer.steps.add_(3),
    "to": lambda normalizer, other: normalizer.double().float(),
}


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(sorted(CHANGES)), max_size=6), st.integers(0, 2**32 - 1))
def test_the_cached_normalizer_gives_the_same_numbers_after_every_change(changes, seed):
    normalizer = Normalizer(3)
    cached = CachedNormalizer(normalizer)
    assert_same_numbers(cached, normalizer, seed)
    for turn, name in enumerate(changes):
        other = Normalizer(3)
        other.update(rows_of(seed + turn)[1:-1])
        CHANGES[name](normalizer, other)
        assert_same_numbers(cached, normalizer, seed)


def test_the_cached_normalizer_computes_a_deviation_once_for_each_change():
    normalizer = Normalizer(3)
    cached = CachedNormalizer(normalizer)
    computed = []
    deviation = normalizer.deviation
    normalizer.deviation = lambda: computed.append(1) or deviation()
    for _ in range(3):
        cached(torch.ones(2, 3))
    assert len(computed) == 1
    normalizer.update(torch.ones(4, 3))
    cached(torch.ones(2, 3))
    assert len(computed) == 2


def test_the_state_is_saved_but_not_trained():
    normalizer = Normalizer(2)
    assert set(normalizer.state_dict()) == {"steps", "mean", "squares"}
    assert not list(normalizer.parameters())
