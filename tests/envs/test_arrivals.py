"""One wait for the sockets of many engines and for what other threads announce."""

import socket
import threading
import time
from collections.abc import Iterator
from selectors import EVENT_READ

import pytest
from lanista.envs.manager.selector import Arrivals

PATIENCE = 20.0


@pytest.fixture
def arrivals() -> Iterator[Arrivals[str, int]]:
    made: Arrivals[str, int] = Arrivals()
    yield made
    made.close()


def test_nothing_has_arrived(arrivals: Arrivals[str, int]) -> None:
    assert list(arrivals.wait(0)) == []
    assert list(arrivals.wait(0.01)) == []


def test_what_another_thread_posts_ends_the_wait(arrivals: Arrivals[str, int]) -> None:
    threading.Timer(0.05, lambda: (arrivals.post("b", 2), arrivals.post("a"))).start()
    found: list[tuple[str, int | None]] = []
    start = time.monotonic()
    while len(found) < 2:
        found += arrivals.wait(PATIENCE)
    assert found == [("b", 2), ("a", None)]
    assert time.monotonic() - start < PATIENCE / 2, "the wait was not ended, but ran out"


def test_a_socket_tells_until_it_is_empty(arrivals: Arrivals[str, int]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        arrivals.selector.register(ours, EVENT_READ, "engine")
        theirs.send(b"x")
        assert list(arrivals.wait(PATIENCE)) == [("engine", None)]
        assert list(arrivals.wait(PATIENCE)) == [("engine", None)]
        ours.recv(1)
        assert list(arrivals.wait(0)) == []
        arrivals.selector.unregister(ours)


def test_what_was_not_taken_stays(arrivals: Arrivals[str, int]) -> None:
    """A manager raises an engine's error in the midst of what has arrived."""
    for number in range(3):
        arrivals.post("env", number)
    first = arrivals.wait(PATIENCE)
    assert next(first) == ("env", 0)
    del first
    assert list(arrivals.wait(PATIENCE)) == [("env", 1), ("env", 2)]


def test_nobody_who_posts_ever_waits(arrivals: Arrivals[str, int]) -> None:
    for number in range(100_000):  # more than the sockets hold
        arrivals.post("env", number)
    assert [news for _, news in arrivals.wait(PATIENCE)] == list(range(100_000))
    assert list(arrivals.wait(0)) == []


def test_posting_to_who_is_closed_is_without_effect(arrivals: Arrivals[str, int]) -> None:
    arrivals.close()
    arrivals.post("env", 1)
