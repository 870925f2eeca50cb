"""An update may use several processors where that is faster; acting never does."""

import itertools
import time

import pytest
import torch
from lanista.trainers.threads import ACTING_THREADS, FIRST_PATIENCE, LONGEST_PATIENCE, UpdateThreads


@pytest.fixture(autouse=True)
def _threads_as_before():
    before = torch.get_num_threads()
    torch.set_num_threads(ACTING_THREADS)
    yield
    torch.set_num_threads(before)


class Clock:
    """An update's time, by its number of threads."""

    def __init__(self, monkeypatch, **seconds):
        self.now, self.seconds = 0.0, {int(k[1:]): v for k, v in seconds.items()}
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def updates(self, threads, count):
        found = []
        for _ in range(count):
            with threads.update(steps=10):
                found.append(torch.get_num_threads())
                self.now += self.seconds[found[-1]]
            assert torch.get_num_threads() == ACTING_THREADS
        return found


@pytest.mark.parametrize("most", [1, 2])
def test_a_fixed_number_is_kept(monkeypatch, most):
    clock = Clock(monkeypatch, t1=1.0, t2=9.0)
    assert clock.updates(UpdateThreads(most, fixed=True), 9) == [most] * 9


@pytest.mark.parametrize(("faster", "slower"), [(1, 2), (2, 1)])
def test_both_are_tried_and_the_faster_is_kept(monkeypatch, faster, slower):
    clock = Clock(monkeypatch, **{f"t{faster}": 1.0, f"t{slower}": 2.0})
    found = clock.updates(UpdateThreads(2), 300)
    assert set(found[:2]) == {1, 2}
    assert found.count(slower) < 12
    tried = [i for i, count in enumerate(found) if count == slower and i > 1]
    gaps = [b - a for a, b in itertools.pairwise(tried)]
    assert gaps == sorted(gaps) and max(gaps) <= LONGEST_PATIENCE + 1


def test_a_machine_that_gets_busy_is_noticed_at_once(monkeypatch):
    clock, threads = Clock(monkeypatch, t1=2.0, t2=1.0), UpdateThreads(2)
    assert clock.updates(threads, 20)[-1] == 2
    clock.seconds[2] = 50.0
    assert clock.updates(threads, 3)[1:] == [1, 1]
    clock.seconds[2] = 1.0
    assert 2 in clock.updates(threads, 2 * LONGEST_PATIENCE)
    assert clock.updates(threads, FIRST_PATIENCE) == [2] * FIRST_PATIENCE


def test_an_update_that_fails_leaves_acting_s_threads(monkeypatch):
    with pytest.raises(RuntimeError), UpdateThreads(2).update(1):
        raise RuntimeError
    assert torch.get_num_threads() == ACTING_THREADS
