"""More sockets than the system's `select` takes are waited for in groups."""

import socket
import threading
from collections.abc import Iterator
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector

import pytest
from lanista.envs.engines import socket_groups
from lanista.envs.engines.selector import EventSelector
from lanista.envs.engines.socket_groups import SocketGroups, make_selector

PATIENCE = 60.0


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    made = [socket.socketpair() for _ in range(7)]
    yield made
    for pair in made:
        for one in pair:
            one.close()


@pytest.fixture
def groups() -> Iterator[SocketGroups]:
    made = SocketGroups(most=3)
    yield made
    made.close()


def found(groups: SocketGroups, timeout: float) -> set[object]:
    return {key.data for key, _ in groups.select(timeout)}


@pytest.mark.parametrize("count", [1, 3, 4, 7])
def test_what_any_of_the_sockets_gets_is_found(count, pairs, groups):
    for number, (ours, _) in enumerate(pairs[:count]):
        groups.register(ours, EVENT_READ, number)
    assert found(groups, 0) == set() and found(groups, 0.01) == set()
    for number in {0, count - 1}:
        pairs[number][1].send(b"!")
    assert found(groups, PATIENCE) == {0, count - 1}
    assert {key.data for key in groups.get_map().values()} == set(range(count))
    assert groups.get_map()[pairs[0][0]].data == 0


def test_a_wait_ends_when_something_comes(pairs, groups):
    for number, (ours, _) in enumerate(pairs):
        groups.register(ours, EVENT_READ, number)
    timer = threading.Timer(0.05, lambda: pairs[6][1].send(b"!"))
    timer.start()
    assert found(groups, None) == {6}
    timer.join()


def test_sockets_leave_make_room_and_change(pairs, groups):
    for number, (ours, _) in enumerate(pairs):
        groups.register(ours, EVENT_READ, number)
    with pytest.raises(KeyError):
        groups.register(pairs[6][0], EVENT_READ)
    groups.modify(pairs[5][0], EVENT_READ | EVENT_WRITE, "writes")
    assert found(groups, PATIENCE) == {"writes"}
    pairs[1][1].send(b"!")
    groups.unregister(pairs[1][0])
    groups.unregister(pairs[5][0])
    assert found(groups, 0) == set()
    with pytest.raises(KeyError):
        groups.unregister(pairs[1][0])
    groups.register(pairs[1][0], EVENT_READ, "again")
    assert len(groups._groups) == 3 and found(groups, PATIENCE) == {"again"}


def test_an_engines_wait_takes_more_sockets_than_a_group(pairs, monkeypatch):
    monkeypatch.setattr("lanista.envs.engines.selector.make_selector", lambda: SocketGroups(most=2))
    waiting: EventSelector[int, str] = EventSelector()
    for number, (ours, _) in enumerate(pairs):
        waiting.selector.register(ours, EVENT_READ, number)
    pairs[4][1].send(b"!")
    waiting.post(9, "posted")
    events: set[tuple[int, str | None]] = set()
    while len(events) < 2:
        assert waiting.wait(PATIENCE)
        events |= set(waiting.wait(0))
    assert events == {(4, None), (9, "posted")}
    waiting.close()


@pytest.mark.parametrize(("system", "kind"), [("nt", SocketGroups), ("posix", DefaultSelector)])
def test_groups_are_for_windows(system, kind, monkeypatch):
    monkeypatch.setattr(socket_groups.os, "name", system)
    selector = make_selector()
    monkeypatch.undo()
    assert isinstance(selector, kind)
    selector.close()
