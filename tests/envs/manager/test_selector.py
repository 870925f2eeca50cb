"""One wait for the sockets of many engines and for what other threads announce."""

import socket
import threading
import time
from collections.abc import Iterator
from selectors import EVENT_READ

import pytest
from lanista.envs.manager.selector import EventSelector

PATIENCE = 20.0


@pytest.fixture
def arrivals() -> Iterator[EventSelector[str, int]]:
    made: EventSelector[str, int] = EventSelector()
    yield made
    made.close()


def taken(events: EventSelector[str, int], timeout: float = 0) -> list[tuple[str, int | None]]:
    """All events, removed as a manager removes them."""
    found = events.wait(timeout)
    return [found.popleft() for _ in range(len(found))]


def test_nothing_has_arrived(arrivals: EventSelector[str, int]) -> None:
    assert taken(arrivals) == []
    assert taken(arrivals, 0.01) == []


def test_what_another_thread_posts_ends_the_wait(arrivals: EventSelector[str, int]) -> None:
    threading.Timer(0.05, lambda: (arrivals.post("b", 2), arrivals.post("a"))).start()
    found: list[tuple[str, int | None]] = []
    start = time.monotonic()
    while len(found) < 2:
        found += taken(arrivals, PATIENCE)
    assert found == [("b", 2), ("a", None)]
    assert time.monotonic() - start < PATIENCE / 2, "the wait was not ended, but ran out"


def test_a_socket_tells_until_it_is_empty(arrivals: EventSelector[str, int]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        arrivals.selector.register(ours, EVENT_READ, "engine")
        theirs.send(b"x")
        assert taken(arrivals, PATIENCE) == [("engine", None)]
        assert taken(arrivals, PATIENCE) == [("engine", None)]
        ours.recv(1)
        assert taken(arrivals) == []
        arrivals.selector.unregister(ours)


def test_what_was_not_taken_stays(arrivals: EventSelector[str, int]) -> None:
    """A manager raises an engine's error in the midst of what has arrived."""
    for number in range(3):
        arrivals.post("env", number)
    assert arrivals.wait(PATIENCE).popleft() == ("env", 0)
    assert taken(arrivals, PATIENCE) == [("env", 1), ("env", 2)]


def test_nobody_who_posts_ever_waits(arrivals: EventSelector[str, int]) -> None:
    for number in range(100_000):  # more than the sockets hold
        arrivals.post("env", number)
    assert [news for _, news in taken(arrivals, PATIENCE)] == list(range(100_000))
    assert taken(arrivals) == []


def test_posting_to_who_is_closed_is_without_effect(arrivals: EventSelector[str, int]) -> None:
    arrivals.close()
    arrivals.post("env", 1)
