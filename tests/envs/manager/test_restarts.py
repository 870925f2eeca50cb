"""How often an engine may be restarted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.manager.restarts import HostLostError, RestartHistory, RestartLimits


def test_the_defaults_are_those_of_the_settings():
    limits = RestartLimits()
    assert (limits.max_lifetime_restarts, limits.restarts_rate_limit_n) == (10, 1)
    assert limits.restarts_rate_limit_period_s == 60


@pytest.mark.parametrize(
    ("limits", "allowed"),
    [
        (RestartLimits(), {10.0: True, 69.9: False, 70.0: True}),
        (RestartLimits(2, -1, 60), {1.0: True, 1000.0: True, 1e9: False}),
        (RestartLimits(0, -1, 60), {1.0: False}),
        (RestartLimits(-1, 0, 60), {1.0: False}),
    ],
    ids=["one a period", "two in a lifetime", "none in a lifetime", "none a period"],
)
def test_restarts_are_limited(limits, allowed):
    history = RestartHistory(limits, started=0.0)
    for when, expected in allowed.items():
        assert history.allows(when) == expected
        if expected:
            history.restarted(when)


@given(
    life=st.integers(-1, 4),
    rate=st.integers(-1, 3),
    period=st.integers(1, 20),
    gaps=st.lists(st.integers(0, 15), max_size=30),
)
def test_limits_hold_whenever_restarts_happen(life, rate, period, gaps):
    history = RestartHistory(RestartLimits(life, rate, period), started=0.0)
    granted: list[int] = []
    now = 0
    for gap in gaps:
        now += gap
        recent = [when for when in granted if now - when < period]
        expected = (life == -1 or len(granted) < life) and (rate == -1 or len(recent) < rate)
        assert history.allows(now) == expected
        if expected:
            history.restarted(now)
            granted.append(now)
    assert history.restarts == len(granted)


def test_the_history_stays_short_in_a_run_without_limits():
    history = RestartHistory(RestartLimits(-1, -1, 60), started=100.0)
    for k in range(10_000):
        history.failed(100.0 + k, OSError(f"failure {k}\nwith details"))
        assert history.allows(100.0 + k)
        history.restarted(100.0 + k)
    lines = str(history).splitlines()
    assert len(lines) == 11
    assert "9990 earlier" in lines[0]
    assert lines[-1].strip() == "9999.0 s after the start: OSError: failure 9999"
    assert not history._recent, "times are kept that no limit asks for"


def test_a_list_that_a_failure_announces_is_begun():
    history = RestartHistory(RestartLimits(), started=0.0)
    history.failed(2.0, OSError("It crashed. Its first errors:\n    no target (A.cs:7)\n    other\nmore"))
    assert (
        str(history).strip()
        == "2.0 s after the start: OSError: It crashed. Its first errors: no target (A.cs:7)"
    )


@pytest.mark.parametrize("values", [(-2, 1, 60), (1, -5, 60), (1, 1, 0)])
def test_invalid_limits_are_refused(values):
    with pytest.raises(ValueError, match="must be"):
        RestartLimits(*values)


def test_a_lost_host_counts_against_no_limit():
    history = RestartHistory(RestartLimits(1, 1, 60), started=0.0)
    for when in range(1, 20):
        history.failed(when, HostLostError("its node is gone"))
        assert history.allows(when)
        history.restarted(when)
    assert history.restarts == 19
    history.failed(20.0, RuntimeError("a crash of its own"))
    assert history.allows(20.0), "none has been counted so far"
    history.restarted(20.0)
    history.failed(100.0, RuntimeError("another"))
    assert not history.allows(100.0)
    history.failed(101.0, HostLostError("its node is gone"))
    assert history.allows(101.0)
