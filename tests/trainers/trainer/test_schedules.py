"""Nothing falls due twice, also across a resumed run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.trainers.trainer.schedules import StepSchedule


def test_what_was_saved_just_before_its_multiple_is_not_due_again():
    clock = StepSchedule(summary_freq=100, checkpoint_interval=500)
    clock.count(495)
    assert clock.checkpoint_due(10) and clock.summary_due(10) == 500
    clock.advance_summary()
    clock.advance_checkpoint()
    resumed = StepSchedule(100, 500)
    resumed.restore(clock.step, clock.next_due())
    for each in (clock, resumed):  # the trajectory that reached the multiple is lost with the engines
        assert not each.checkpoint_due(10) and each.summary_due(10) is None
        each.count(3)
        assert not each.checkpoint_due(10) and each.summary_due(10) is None
        each.count(390)
        assert each.summary_due(10) is None and each.summary_due(12) == 900
        assert each.checkpoint_due(112) and not each.checkpoint_due(111)


@pytest.mark.parametrize(
    ("saved", "step", "now", "expected"),
    [
        ((100, 500_000), 1234, (30, 1000), (1260, 2000)),
        ((300, 300), 414, (100, 100), (500, 500)),  # 600 came next, which is the second one from here
    ],
)
def test_other_intervals_than_the_saved_ones_count_anew(saved, step, now, expected):
    clock = StepSchedule(*saved)
    clock.count(step)
    resumed = StepSchedule(*now)
    resumed.restore(clock.step, clock.next_due())
    assert (resumed.next_summary, resumed.next_checkpoint) == expected


def test_no_run_continues_from_before_its_beginning():
    with pytest.raises(ValueError, match="step is -7"):
        StepSchedule(30, 1000).restore(-7)


@given(st.lists(st.integers(1, 40), max_size=60), st.integers(0, 59))
def test_a_resumed_run_has_the_same_dues_as_one_that_goes_on(lengths, cut):
    def play(clock, part):
        events: list[object] = []
        for length in part:
            if (summary := clock.summary_due(length)) is not None:
                clock.advance_summary()
                events.append(summary)
            if clock.checkpoint_due(length):
                clock.advance_checkpoint()
                events.append(("checkpoint", clock.step))
            clock.count(length)
        return events

    whole = StepSchedule(30, 50)
    first = StepSchedule(30, 50)
    events = play(first, lengths[:cut])
    resumed = StepSchedule(30, 50)
    resumed.restore(first.step, first.next_due())
    assert play(whole, lengths) == events + play(resumed, lengths[cut:])
