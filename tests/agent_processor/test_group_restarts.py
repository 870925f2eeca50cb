"""Groups whose members end and start again under their ids in one message, as Unity's agents do."""

import pytest
from simple_engine import SimpleEngine


def restarted(group: int) -> SimpleEngine:
    """Agents 1 and 2 have ended and asked again in one message, in which 3 joined."""
    engine = SimpleEngine(horizon=100)
    engine.step([1, 2], group=7)
    engine.step([1, 2, 3], end=[1, 2], group=group)
    return engine


@pytest.mark.parametrize("group", [7, 8])
def test_who_starts_again_counts_as_a_member_from_its_first_decision(group: int) -> None:
    engine = restarted(group)
    (dead,) = engine.step([1, 2], end=[3], group=group)
    assert not dead.all_group_dones_reached and len(dead.next_teammates) == 2


def test_one_of_them_that_ends_in_its_first_step_leaves_all_others_behind() -> None:
    (dead,) = restarted(7).step([2, 3], end=[1], group=7)
    assert not dead.all_group_dones_reached and len(dead.next_teammates) == 2
