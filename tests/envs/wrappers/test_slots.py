"""Agents' ids change, their slots do not."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.wrappers.agents import VACANT, Slots


def seat(slots, *agents, groups=None):
    told, new = slots.seat(np.array(agents, np.int32), np.array(groups or [0] * len(agents)))
    return told.tolist(), new.tolist()


def leave(slots, *agents):
    return slots.leave(np.array(agents, np.int32)).tolist()


def test_the_first_are_seated_by_their_ids_whatever_their_order():
    slots = Slots()
    assert seat(slots, 12, 3, 7) == ([2, 0, 1], [2, 0, 1])
    assert seat(slots, 3, 12) == ([0, 2], [])


def test_a_successor_takes_the_slot_that_was_left():
    slots = Slots()
    seat(slots, 0, 1, 2)
    assert leave(slots, 1) == [1]
    assert seat(slots, 2, 9, 0) == ([2, 1, 0], [1])
    assert slots.holders.tolist() == [0, 9, 2]


def test_an_agent_that_keeps_its_id_keeps_its_slot():
    slots = Slots()
    seat(slots, 0, 1, 2)
    leave(slots, 0, 2)
    assert seat(slots, 2, 0, 1) == ([2, 0, 1], [2, 0])


def test_successors_stay_in_their_group():
    slots = Slots()
    seat(slots, 0, 1, 2, 3, groups=[1, 1, 2, 2])
    leave(slots, 0, 1, 2, 3)
    told, _ = seat(slots, 10, 11, 12, 13, groups=[2, 2, 1, 1])
    assert told == [2, 3, 0, 1]


def test_a_slot_that_somebody_left_goes_before_one_that_nobody_had():
    slots = Slots()
    slots.reserve(3)
    seat(slots, 0, 1)
    leave(slots, 1)
    assert seat(slots, 0, 5) == ([0, 1], [1])
    assert seat(slots, 0, 5, 6) == ([0, 1, 2], [2])


def test_more_agents_than_slots_make_more_slots():
    slots = Slots()
    seat(slots, 0)
    assert seat(slots, 0, 1) == ([0, 1], [1])
    assert len(slots) == 2


def test_who_was_never_seated_leaves_nothing():
    slots = Slots()
    seat(slots, 0)
    assert leave(slots, 5) == [VACANT]
    assert slots.holders.tolist() == [0]


def test_after_a_clearing_the_slots_are_there_and_nobody_holds_them():
    slots = Slots()
    seat(slots, 0, 1)
    slots.clear()
    assert slots.holders.tolist() == [VACANT, VACANT]
    assert seat(slots, 1) == ([0], [0])


@given(st.lists(st.tuples(st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)))))
def test_nobody_shares_a_slot_or_changes_it_while_it_lives(turns):
    """Agents of which some end and some ask in each step, ids coming again."""
    slots, held = Slots(), {}
    for ends, asks in turns:
        for agent, slot in zip(sorted(ends), leave(slots, *sorted(ends))):
            assert slot == held.pop(agent, VACANT)
        told, new = seat(slots, *asks)
        assert set(new) == {slot for agent, slot in zip(asks, told) if agent not in held}
        assert all(held.get(agent, slot) == slot for agent, slot in zip(asks, told))
        held.update(zip(asks, told))
        assert len(set(held.values())) == len(held)
        assert len(slots) <= 6
