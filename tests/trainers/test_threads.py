"""An update may use several processors; acting never does."""

import pytest
import torch
from lanista.trainers.threads import ACTING_THREADS, updating


@pytest.fixture(autouse=True)
def _threads_as_before():
    before = torch.get_num_threads()
    torch.set_num_threads(ACTING_THREADS)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_threads_of_an_update_end_with_it(threads):
    with updating(threads):
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == ACTING_THREADS


def test_also_when_it_fails():
    with pytest.raises(RuntimeError), updating(2):
        raise RuntimeError
    assert torch.get_num_threads() == ACTING_THREADS
