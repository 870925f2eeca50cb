"""How often an engine may be restarted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.manager.restarts import HostLostError, RestartHistory, RestartLimits


def test_the_defaults_are_those_of_the_settings():
    limits = RestartLimits()
    assert (limits.max_lifetime_restarts, limits.restarts_rate_limit_n) == (10, 1)
    assert limits.restarts_rate_limit_period_s == 60


def test_one_restart_a_period():
    history = RestartHistory(RestartLimits(), started=0.0)
    assert history.allows(10.0)
    history.restarted(10.0)
    assert not history.allows(69.9)
    assert history.allows(70.0)


def test_a_lifetime_ends():
    history = RestartHistory(RestartLimits(2, -1, 60), started=0.0)
    for when in (1.0, 1000.0):
        assert history.allows(when)
        history.restarted(when)
    assert not history.allows(1e9)


def test_zero_forbids_every_restart():
    assert not RestartHistory(RestartLimits(0, -1, 60), 0.0).allows(1.0)
    assert not RestartHistory(RestartLimits(-1, 0, 60), 0.0).allows(1.0)


@given(
    life=st.integers(-1, 4),
    rate=st.integers(-1, 3),
    period=st.integers(1, 20),
    gaps=st.lists(st.integers(0, 15), max_size=30),
)
def test_limits_hold_whatever_the_moments(life, rate, period, gaps):
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


def test_what_it_tells_stays_short_in_a_run_without_limits():
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


@pytest.mark.parametrize("values", [(-2, 1, 60), (1, -5, 60), (1, 1, 0)])
def test_senseless_limits_are_refused(values):
    with pytest.raises(ValueError, match="must be"):
        RestartLimits(*values)


def test_a_lost_host_is_held_against_nobody():
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
