"""Agents' ids change, their slots do not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.wrappers.agents import VACANT, SlotAssignment


def assign(slots, *agents, groups=None):
    assigned, new = slots.assign(np.array(agents, np.int32), np.array(groups or [0] * len(agents)))
    return assigned.tolist(), new.tolist()


def release(slots, *agents):
    return slots.release(np.array(agents, np.int32)).tolist()


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([((12, 3, 7), [2, 0, 1]), ((3, 12), [0, 2])], "the first by their ids, in whatever order"),
        ([((0, 1, 2), [0, 1, 2]), {1}, ((2, 9, 0), [2, 1, 0])], "a successor takes the free slot"),
        ([((0, 1, 2), [0, 1, 2]), {0, 2}, ((2, 0, 1), [2, 0, 1])], "who keeps its id keeps its slot"),
        ([3, ((0, 1), [0, 1]), {1}, ((0, 5), [0, 1]), ((0, 5, 6), [0, 1, 2])], "a left one before a new one"),
        ([((0,), [0]), ((0, 1), [0, 1])], "more agents make more slots"),
    ],
)
def test_slots_are_assigned(steps, expected):
    slots = SlotAssignment()
    for step in steps:
        if isinstance(step, int):
            slots.reserve(step)
        elif isinstance(step, set):
            release(slots, *sorted(step))
        else:
            agents, held = step
            new = [slot for agent, slot in zip(agents, held) if agent not in slots.holders]
            assert assign(slots, *agents) == (held, new), expected
            assert [slots.holders[slot] for slot in held] == list(agents)


def test_successors_stay_in_their_group():
    slots = SlotAssignment()
    assign(slots, 0, 1, 2, 3, groups=[1, 1, 2, 2])
    release(slots, 0, 1, 2, 3)
    assigned, _ = assign(slots, 10, 11, 12, 13, groups=[2, 2, 1, 1])
    assert assigned == [2, 3, 0, 1]


def test_cleared_slots_are_empty():
    slots = SlotAssignment()
    assign(slots, 0, 1)
    assert release(slots, 5) == [VACANT], "it was never assigned"
    slots.clear()
    assert slots.holders.tolist() == [VACANT, VACANT]
    assert assign(slots, 1) == ([0], [0])


@given(st.lists(st.tuples(st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)))))
def test_an_agent_keeps_a_slot_of_its_own_while_it_lives(turns):
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


def test_an_agent_that_changes_its_group_keeps_its_slot_and_is_reported_in_the_new_one():
    slots = SlotAssignment()
    for agents, groups in (((4, 5), [1, 1]), ((4, 5), [2, 1]), ((5, 4, 6), [3, 2, 2])):
        assign(slots, *agents, groups=groups)
        assert [slots.groups[slots.holders.tolist().index(agent)] for agent in agents] == groups
