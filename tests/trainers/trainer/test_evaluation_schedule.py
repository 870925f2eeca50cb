"""Tests fall due at multiples of their frequency, together, and after a resume where they would have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.trainers.trainer.schedules import EvaluationSchedule


def test_never_is_never():
    schedule = EvaluationSchedule(-1)
    assert not schedule.enabled and not schedule.is_due(10**9)
    schedule.restore(5, 10)
    assert not schedule.is_due(10**9)


def test_the_multiples_are_due_however_far_a_tick_goes():
    schedule = EvaluationSchedule(100)
    assert not schedule.is_due(99) and schedule.is_due(100)
    schedule.advance(103)
    assert schedule.next_step == 200
    schedule.advance(460)
    assert schedule.next_step == 600


def test_from_max_steps_on_only_the_one_at_the_end_is_due():
    """A trainer that stands exactly at max_steps still takes steps before its policy is exported."""
    schedule = EvaluationSchedule(100, 200)
    schedule.advance(110)
    assert not schedule.is_due(200) and not schedule.is_due(207)
    assert schedule.is_due_at_end(207)


@pytest.mark.parametrize(
    ("step", "due"), [(30, 100), (49, 100), (51, 200), (99, 200), (100, 200), (149, 200)]
)
def test_one_that_comes_a_little_early_stands_for_the_next(step, due):
    schedule = EvaluationSchedule(100)
    schedule.advance(step)
    assert schedule.next_step == due


@given(st.integers(1, 1000), st.integers(0, 10**6))
def test_the_next_is_at_least_half_an_interval_away_and_at_most_one_and_a_half(frequency, step):
    schedule = EvaluationSchedule(frequency)
    schedule.advance(step)
    assert schedule.next_step % frequency == 0
    assert frequency / 2 - 1 < schedule.next_step - step <= 1.5 * frequency
    again = EvaluationSchedule(frequency)
    again.restore(step, schedule.next_step)
    assert again.next_step == schedule.next_step


def test_a_saved_one_of_another_frequency_is_not_waited_for():
    schedule = EvaluationSchedule(30)
    schedule.restore(100, 1000)
    assert schedule.next_step == 120
    schedule.restore(100, None)
    assert schedule.next_step == 120
