"""An update may use several processors where that is faster; acting never does."""

import pytest
import torch
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.common.optim import FlatAdam, FlatParameters
from lanista.trainers.algorithms.fast.threads import (
    ACTING_THREADS,
    MAX_PRODUCTS_OF_ONE_THREAD,
    UpdateThreads,
    flushed_denormals,
    torch_threads,
)
from lanista.trainers.algorithms.ppo.ppo import PPO
from lanista.trainers.settings.models.behavior import TrainerSettings
from specs import vector_spec


@pytest.fixture(autouse=True)
def _threads_as_before():
    before = torch.get_num_threads()
    torch.set_num_threads(ACTING_THREADS)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    "threads, products, expected",
    [
        (UpdateThreads(4), MAX_PRODUCTS_OF_ONE_THREAD, 1),
        (UpdateThreads(4), MAX_PRODUCTS_OF_ONE_THREAD + 1, 4),
        (UpdateThreads(4), None, 4),  # images or entities
        (UpdateThreads(4, fixed=True), 1, 4),
        (UpdateThreads(1, fixed=True), None, 1),
        (UpdateThreads(), None, 1),
    ],
)
def test_small_products_are_computed_by_one_thread_unless_the_number_is_fixed(threads, products, expected):
    assert threads.choose(products) == expected


@pytest.mark.parametrize("count", [1, 2])
def test_acting_has_its_one_thread_again_after_an_update_even_one_that_fails(count):
    with pytest.raises(RuntimeError), torch_threads(count):
        assert torch.get_num_threads() == count
        raise RuntimeError
    assert torch.get_num_threads() == ACTING_THREADS


def test_with_a_memory_the_products_of_one_step_count():
    network = {"hidden_units": 8, "memory": {"memory_size": 8, "sequence_length": 16}}
    settings = TrainerSettings.model_validate({"trainer_type": "ppo", "network_settings": network})
    ppo = PPO(vector_spec([3], 2), settings, torch.device("cpu"), 0, NonFinitePolicy.STOP)
    assert ppo.products(64) == 4 * sum(p.numel() for p in ppo.network.parameters())


flushes_denormals = pytest.mark.skipif(
    not torch.set_flush_denormal(False), reason="torch cannot flush denormals on this processor"
)


@flushes_denormals
@pytest.mark.parametrize("before", [False, True])
def test_denormals_are_zeros_within_updates_and_what_they_were_afterwards(before):
    denormal = torch.tensor([1e-40])
    torch.set_flush_denormal(before)
    try:
        with pytest.raises(RuntimeError), flushed_denormals():
            assert (denormal * 1.0).item() == 0.0
            raise RuntimeError
        assert ((denormal * 1.0).item() == 0.0) is before
    finally:
        torch.set_flush_denormal(False)


@flushes_denormals
@pytest.mark.parametrize("threads", [1, 2])
def test_moments_of_a_weight_without_gradients_become_zeros_instead_of_denormals(threads):
    size = 200_000  # so large that threads share it
    flat = FlatParameters([torch.nn.Parameter(torch.ones(size))])
    adam = FlatAdam(flat, 1e-3)
    adam.mean[:] = 1e-37
    adam.mean[::2] = 1.0
    with flushed_denormals(), torch_threads(threads):
        for _ in range(50):
            adam.step()
    assert (adam.mean[1::2] == 0.0).all()
    assert (adam.mean[::2] > 0.0).all()
