"""Waiting for events: polling for those that come soon, one wait for the sockets of many engines."""

import socket
import threading
import time
from collections.abc import Iterator
from selectors import EVENT_READ

import pytest
from lanista.envs.engines import selector
from lanista.envs.engines.selector import MAX_SPIN_SECONDS, EventSelector, SpinWait

PATIENCE = 20.0


class Poll:
    """Finds something at call number `after`, on a clock of its own on which a call takes 10 microseconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, processors: int = 2) -> None:
        self.now, self.after = 0.0, 1
        self.timeouts: list[float] = []
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(selector, "processors", lambda: processors)

    def __call__(self, timeout: float) -> list[str]:
        self.timeouts.append(timeout)
        self.now += 1e-5
        if len(self.timeouts) < self.after and not timeout:
            return []
        self.now += timeout
        return ["event"] if timeout < 1.0 or self.after < 1000 else []


def test_an_event_that_comes_soon_is_polled_for(monkeypatch):
    poll = Poll(monkeypatch)
    poll.after = 20
    assert SpinWait().wait(poll, 0.3) == ["event"]
    assert poll.timeouts == [0.0] * 20


def test_it_sleeps_once_polling_has_taken_too_long(monkeypatch):
    poll = Poll(monkeypatch)
    poll.after = 999
    assert SpinWait().wait(poll, 0.3) == ["event"]
    assert poll.timeouts[-1] == 0.3 and set(poll.timeouts[:-1]) == {0.0}
    assert len(poll.timeouts) == pytest.approx(MAX_SPIN_SECONDS / 1e-5, abs=3)


def test_it_learns_how_long_events_take(monkeypatch):
    poll, wait = Poll(monkeypatch), SpinWait()
    for _ in range(10):
        poll.timeouts, poll.after = [], 999
        wait.wait(poll, 0.3)
    assert poll.timeouts == [0.0, 0.3]
    for _ in range(20):
        poll.timeouts, poll.after = [], 1
        wait.wait(poll, 0.3)
    poll.timeouts, poll.after = [], 20
    wait.wait(poll, 0.3)
    assert poll.timeouts == [0.0] * 20


@pytest.mark.parametrize(("spin", "processors"), [(False, 2), (True, 1)])
def test_it_sleeps_at_once_where_it_may_not_keep_a_processor(monkeypatch, spin, processors):
    poll = Poll(monkeypatch, processors)
    poll.after = 20
    SpinWait(spin).wait(poll, 0.3)
    assert poll.timeouts == [0.0, 0.3]


def test_a_timeout_finds_nothing(monkeypatch):
    poll = Poll(monkeypatch)
    poll.after = 10**6
    assert SpinWait().wait(poll, 2.0) == []


@pytest.fixture
def events() -> Iterator[EventSelector[str, int]]:
    made: EventSelector[str, int] = EventSelector()
    yield made
    made.close()


def taken(events: EventSelector[str, int], timeout: float = 0) -> list[tuple[str, int | None]]:
    """All events, removed as a manager removes them."""
    found = events.wait(timeout)
    return [found.popleft() for _ in range(len(found))]


def test_without_events_a_wait_returns_nothing(events: EventSelector[str, int]) -> None:
    assert taken(events) == []
    assert taken(events, 0.01) == []


def test_what_another_thread_posts_ends_the_wait(events: EventSelector[str, int]) -> None:
    threading.Timer(0.05, lambda: (events.post("b", 2), events.post("a"))).start()
    found: list[tuple[str, int | None]] = []
    start = time.monotonic()
    while len(found) < 2:
        found += taken(events, PATIENCE)
    assert found == [("b", 2), ("a", None)]
    assert time.monotonic() - start < PATIENCE / 2, "the wait was not ended, but ran out"


def test_a_socket_is_reported_until_it_is_empty(events: EventSelector[str, int]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        events.selector.register(ours, EVENT_READ, "engine")
        theirs.send(b"x")
        assert taken(events, PATIENCE) == [("engine", None)]
        assert taken(events, PATIENCE) == [("engine", None)]
        ours.recv(1)
        assert taken(events) == []
        events.selector.unregister(ours)


def test_events_that_were_not_taken_stay(events: EventSelector[str, int]) -> None:
    """A manager raises an engine's error in the midst of what has arrived."""
    for number in range(3):
        events.post("env", number)
    assert events.wait(PATIENCE).popleft() == ("env", 0)
    assert taken(events, PATIENCE) == [("env", 1), ("env", 2)]


def test_posting_never_blocks(events: EventSelector[str, int]) -> None:
    for number in range(100_000):  # more than the sockets hold
        events.post("env", number)
    assert [number for _, number in taken(events, PATIENCE)] == list(range(100_000))
    assert taken(events) == []


def test_posting_after_close_has_no_effect(events: EventSelector[str, int]) -> None:
    events.close()
    events.post("env", 1)
