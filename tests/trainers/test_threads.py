"""An update may use several processors where that is faster; acting never does."""

import time

import pytest
import torch
from lanista.trainers.algorithms.common.threads import ACTING_THREADS, LONGEST_PATIENCE, TRIAL, UpdateThreads

MINIBATCHES = 20


@pytest.fixture(autouse=True)
def _threads_as_before():
    before = torch.get_num_threads()
    torch.set_num_threads(ACTING_THREADS)
    yield
    torch.set_num_threads(before)


class Clock:
    """A minibatch's time, by its number of threads."""

    def __init__(self, monkeypatch, **seconds):
        self.now, self.seconds = 0.0, {int(k[1:]): v for k, v in seconds.items()}
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def update(self, threads, minibatches=MINIBATCHES):
        """The threads of each minibatch of one update."""
        found = []
        with threads.update():
            for _ in threads.over(range(minibatches)):
                found.append(torch.get_num_threads())
                self.now += self.seconds[found[-1]]
        assert torch.get_num_threads() == ACTING_THREADS
        return found


@pytest.mark.parametrize("most", [1, 2])
def test_a_fixed_number_is_kept(monkeypatch, most):
    clock, threads = Clock(monkeypatch, t1=1.0, t2=9.0), UpdateThreads(most, fixed=True)
    assert [clock.update(threads) for _ in range(9)] == [[most] * MINIBATCHES] * 9


@pytest.mark.parametrize(("faster", "slower"), [(1, 2), (2, 1)])
def test_both_are_tried_for_a_few_minibatches_and_the_faster_is_kept(monkeypatch, faster, slower):
    clock = Clock(monkeypatch, **{f"t{faster}": 1.0, f"t{slower}": 1.4})
    threads = UpdateThreads(2)
    first = clock.update(threads)
    assert sorted(first[: 2 * TRIAL]) == [1] * TRIAL + [2] * TRIAL
    assert set(first[2 * TRIAL :]) == {faster}
    trials = [k for k in range(1, 200) if slower in clock.update(threads)]
    gaps = [b - a for a, b in zip([0, *trials], trials)]
    assert gaps == sorted(gaps) and gaps[-1] == LONGEST_PATIENCE


def test_a_machine_that_gets_busy_is_noticed_by_the_next_update(monkeypatch):
    clock, threads = Clock(monkeypatch, t1=2.0, t2=1.0), UpdateThreads(2)
    for _ in range(40):
        assert clock.update(threads)[-1] == 2
    clock.seconds[2] = 50.0
    clock.update(threads)
    assert clock.update(threads)[-1] == 1
    clock.seconds[2] = 1.0
    found = [clock.update(threads)[-1] for _ in range(2 * LONGEST_PATIENCE)]
    assert found[-1] == 2


@pytest.mark.parametrize("minibatches", range(1, 2 * TRIAL + 1))
def test_a_trial_goes_on_in_later_updates_and_is_over_then(monkeypatch, minibatches):
    clock, threads = Clock(monkeypatch, t1=1.0, t2=2.0), UpdateThreads(2)
    found: list[int] = []
    while len(found) < 2 * TRIAL:
        found += clock.update(threads, minibatches)
    assert found[: 2 * TRIAL] == [2] * TRIAL + [1] * TRIAL
    later = [clock.update(threads, minibatches) for _ in range(4 * LONGEST_PATIENCE * 2 * TRIAL)]
    tried = sum(2 in update for update in later)
    assert 0 < tried < len(later) / 4, "trials have become rare"


def test_what_an_update_does_beside_its_minibatches_does_not_count(monkeypatch):
    clock, threads = Clock(monkeypatch, t1=2.0, t2=1.0), UpdateThreads(2)
    clock.update(threads)
    tried = 0
    for _ in range(100):
        with threads.update():
            clock.now += 1000.0
            found = []
            for _ in range(2):  # epochs
                clock.now += 1000.0
                for _ in threads.over(range(MINIBATCHES)):
                    found.append(torch.get_num_threads())
                    clock.now += clock.seconds[found[-1]]
            clock.now += 1000.0
        tried += 1 in found
        assert found[-1] == 2
    assert tried < 10


def test_an_update_that_fails_leaves_acting_s_threads():
    with pytest.raises(RuntimeError), UpdateThreads(2).update():
        raise RuntimeError
    assert torch.get_num_threads() == ACTING_THREADS
