"""Nothing falls due twice, also across a resumed run."""

from hypothesis import given
from hypothesis import strategies as st
from lanista.trainers.trainer.schedules import StepSchedule


def test_what_was_saved_just_before_its_multiple_is_not_due_again():
    clock = StepSchedule(summary_freq=100, checkpoint_interval=500)
    clock.count(495)
    assert clock.due_checkpoint(10) and clock.due_summary(10) == 500
    clock.pass_summary()
    clock.pass_checkpoint()
    resumed = StepSchedule(100, 500)
    resumed.restore(clock.step, clock.due())
    for each in (clock, resumed):  # the trajectory that reached the multiple is lost with the engines
        assert not each.due_checkpoint(10) and each.due_summary(10) is None
        each.count(3)
        assert not each.due_checkpoint(10) and each.due_summary(10) is None
        each.count(390)
        assert each.due_summary(10) is None and each.due_summary(12) == 900
        assert each.due_checkpoint(112) and not each.due_checkpoint(111)


def test_other_intervals_than_the_saved_ones_count_anew():
    clock = StepSchedule(100, 500_000)
    clock.count(1234)
    resumed = StepSchedule(30, 1000)
    resumed.restore(clock.step, clock.due())
    assert resumed.due() == {"summary": 1260, "checkpoint": 2000}


@given(st.lists(st.integers(1, 40), max_size=60), st.integers(0, 59))
def test_a_resumed_run_has_the_same_dues_as_one_that_goes_on(lengths, cut):
    def play(clock: StepSchedule, part: list[int]) -> list[object]:
        events: list[object] = []
        for length in part:
            if (summary := clock.due_summary(length)) is not None:
                clock.pass_summary()
                events.append(summary)
            if clock.due_checkpoint(length):
                clock.pass_checkpoint()
                events.append(("checkpoint", clock.step))
            clock.count(length)
        return events

    whole = StepSchedule(30, 50)
    first = StepSchedule(30, 50)
    events = play(first, lengths[:cut])
    resumed = StepSchedule(30, 50)
    resumed.restore(first.step, first.due())
    assert play(whole, lengths) == events + play(resumed, lengths[cut:])
