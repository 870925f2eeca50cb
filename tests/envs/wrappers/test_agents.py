"""Agents' ids change, their slots do not."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.wrappers.agents import VACANT, SlotAssignment


def assign(slots, *agents, groups=None):
    assigned, new = slots.assign(np.array(agents, np.int32), np.array(groups or [0] * len(agents)))
    return assigned.tolist(), new.tolist()


def release(slots, *agents):
    return slots.release(np.array(agents, np.int32)).tolist()


def test_the_first_are_seated_by_their_ids_whatever_their_order():
    slots = SlotAssignment()
    assert assign(slots, 12, 3, 7) == ([2, 0, 1], [2, 0, 1])
    assert assign(slots, 3, 12) == ([0, 2], [])


def test_a_successor_takes_the_slot_that_was_left():
    slots = SlotAssignment()
    assign(slots, 0, 1, 2)
    assert release(slots, 1) == [1]
    assert assign(slots, 2, 9, 0) == ([2, 1, 0], [1])
    assert slots.holders.tolist() == [0, 9, 2]


def test_an_agent_that_keeps_its_id_keeps_its_slot():
    slots = SlotAssignment()
    assign(slots, 0, 1, 2)
    release(slots, 0, 2)
    assert assign(slots, 2, 0, 1) == ([2, 0, 1], [2, 0])


def test_successors_stay_in_their_group():
    slots = SlotAssignment()
    assign(slots, 0, 1, 2, 3, groups=[1, 1, 2, 2])
    release(slots, 0, 1, 2, 3)
    assigned, _ = assign(slots, 10, 11, 12, 13, groups=[2, 2, 1, 1])
    assert assigned == [2, 3, 0, 1]


def test_a_slot_that_somebody_left_goes_before_one_that_nobody_had():
    slots = SlotAssignment()
    slots.reserve(3)
    assign(slots, 0, 1)
    release(slots, 1)
    assert assign(slots, 0, 5) == ([0, 1], [1])
    assert assign(slots, 0, 5, 6) == ([0, 1, 2], [2])


def test_more_agents_than_slots_make_more_slots():
    slots = SlotAssignment()
    assign(slots, 0)
    assert assign(slots, 0, 1) == ([0, 1], [1])
    assert len(slots) == 2


def test_who_was_never_seated_leaves_nothing():
    slots = SlotAssignment()
    assign(slots, 0)
    assert release(slots, 5) == [VACANT]
    assert slots.holders.tolist() == [0]


def test_after_a_clearing_the_slots_are_there_and_nobody_holds_them():
    slots = SlotAssignment()
    assign(slots, 0, 1)
    slots.clear()
    assert slots.holders.tolist() == [VACANT, VACANT]
    assert assign(slots, 1) == ([0], [0])


@given(st.lists(st.tuples(st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)))))
def test_nobody_shares_a_slot_or_changes_it_while_it_lives(turns):
    """Agents of which some end and some ask in each step, ids coming again."""
    slots, held = SlotAssignment(), {}
    for ends, asks in turns:
        for agent, slot in zip(sorted(ends), release(slots, *sorted(ends))):
            assert slot == held.pop(agent, VACANT)
        assigned, new = assign(slots, *asks)
        assert set(new) == {slot for agent, slot in zip(asks, assigned) if agent not in held}
        assert all(held.get(agent, slot) == slot for agent, slot in zip(asks, assigned))
        held.update(zip(asks, assigned))
        assert len(set(held.values())) == len(held)
        assert len(slots) <= 6
