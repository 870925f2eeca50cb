"""Who waits for an answer that comes soon does not fall asleep; who has learnt that it takes long does."""

import time

import pytest
from lanista.envs.grpc import spin_wait as short_wait
from lanista.envs.grpc.spin_wait import MAX_SPIN_SECONDS, SpinWait


class Looks:
    """Finds something `after` so many looks, on a clock of its own on which a look takes 10 microseconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, processors: int = 2) -> None:
        self.now, self.after = 0.0, 1
        self.asked: list[float] = []
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(short_wait, "processors", lambda: processors)

    def __call__(self, seconds: float) -> list[str]:
        self.asked.append(seconds)
        self.now += 1e-5
        if len(self.asked) < self.after and not seconds:
            return []
        self.now += seconds
        return ["news"] if seconds < 1.0 or self.after < 1000 else []


def test_news_that_come_soon_are_found_awake(monkeypatch):
    looks = Looks(monkeypatch)
    looks.after = 20
    assert SpinWait().wait(looks, 0.3) == ["news"]
    assert looks.asked == [0.0] * 20


def test_it_sleeps_when_nothing_comes_for_a_while(monkeypatch):
    looks = Looks(monkeypatch)
    looks.after = 999
    assert SpinWait().wait(looks, 0.3) == ["news"]
    assert looks.asked[-1] == 0.3 and set(looks.asked[:-1]) == {0.0}
    assert len(looks.asked) == pytest.approx(MAX_SPIN_SECONDS / 1e-5, abs=3)


def test_it_learns_what_takes_long_and_what_does_not(monkeypatch):
    looks, wait = Looks(monkeypatch), SpinWait()
    for _ in range(10):
        looks.asked, looks.after = [], 999
        wait.wait(looks, 0.3)
    assert looks.asked == [0.0, 0.3]
    for _ in range(20):
        looks.asked, looks.after = [], 1
        wait.wait(looks, 0.3)
    looks.asked, looks.after = [], 20
    wait.wait(looks, 0.3)
    assert looks.asked == [0.0] * 20


@pytest.mark.parametrize(("awake", "processors"), [(False, 2), (True, 1)])
def test_it_sleeps_at_once_where_it_may_not_keep_a_processor(monkeypatch, awake, processors):
    looks = Looks(monkeypatch, processors)
    looks.after = 20
    SpinWait(awake).wait(looks, 0.3)
    assert looks.asked == [0.0, 0.3]


def test_nothing_within_the_time_is_nothing(monkeypatch):
    looks = Looks(monkeypatch)
    looks.after = 10**6
    assert SpinWait().wait(looks, 2.0) == []
