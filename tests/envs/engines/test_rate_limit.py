"""Token buckets: a burst, then now and then, for all or for each address."""

from collections.abc import Callable

import pytest
from lanista.envs.engines import limits as rate_limit
from lanista.envs.engines.limits import LimitPerHost, RateLimit

Clock = list[float]


@pytest.fixture
def clock() -> Clock:
    return [0.0]


def now(clock: Clock) -> Callable[[], float]:
    return lambda: clock[0]


def test_after_a_burst_it_happens_now_and_then(clock: Clock) -> None:
    limit = RateLimit(3, 0.5, now(clock))
    for _ in range(3):
        assert limit.wait == 0
        limit.take()
    assert limit.wait == 2
    clock[0] = 1.5
    assert limit.wait == 0.5
    clock[0] = 2.0
    assert limit.wait == 0
    limit.take()
    assert limit.wait == 2
    clock[0] = 1000.0
    for _ in range(3):
        assert limit.wait == 0, "no more than a burst is saved"
        limit.take()
    assert limit.wait == 2


@pytest.mark.parametrize(
    ("same", "other"),
    [
        ("192.0.2.1", "192.0.2.2"),
        ("::ffff:192.0.2.1", "192.0.2.2"),
        ("2001:db8:0:1::ffff", "2001:db8:0:2::1"),
        ("fe80::1%eth0", "fe80:0:0:1::1"),
    ],
)
def test_addresses_are_told_apart_where_a_machine_cannot_choose_them(
    clock: Clock, same: str, other: str
) -> None:
    limit = LimitPerHost(1, 1, now(clock))
    first = {"::ffff:192.0.2.1": "192.0.2.1", "2001:db8:0:1::ffff": "2001:db8:0:1::1"}.get(same, same)
    assert limit.wait(first) == 0
    limit.take(first)
    assert limit.wait(same) == 1
    assert limit.wait(other) == 0


def test_so_many_addresses_are_remembered_only(clock: Clock, monkeypatch) -> None:
    monkeypatch.setattr(rate_limit, "_MAX_HOSTS", 2)
    limit = LimitPerHost(1, 1, now(clock))
    for host in ("192.0.2.1", "192.0.2.2", "192.0.2.3"):
        limit.take(host)
    assert [limit.wait(f"192.0.2.{k}") for k in (1, 2, 3)] == [0, 1, 1]
