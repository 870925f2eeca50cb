"""A group's return is what it was paid while any of its members lived, once, however many were told."""

from lanista.trainers.episodes.groups import GroupReturns
from told_steps import asking, ending


def add(groups, decisions=(), terminals=(), counting=True):
    """A step; agents as (id, group, group reward)."""
    told, ended = (
        [(agent, 0, group, reward) for agent, group, reward in rows] for rows in (decisions, terminals)
    )
    groups.add(asking(*told), ending(*ended))
    for agent, _, group, _ in told:
        if group > 0:
            groups.join(agent, group, counting=counting)


def test_a_group_is_paid_once_and_ends_with_its_last_member():
    groups = GroupReturns()
    add(groups, [(1, 7, 0.0), (2, 7, 0.0)])
    add(groups, [(2, 7, 0.5)], [(1, 7, 0.5)])
    assert groups.running and not groups.finished
    add(groups, [], [(2, 7, 1.0)])
    assert groups.finished == [1.5] and not groups.running


def test_a_group_that_begins_anew_in_the_step_in_which_it_ends_earns_apart():
    groups = GroupReturns()
    add(groups, [(1, 7, 0.0)])
    add(groups, [(1, 7, 0.0)], [(1, 7, 2.0)])
    assert groups.finished == [2.0]
    add(groups, [(1, 7, -1.0)], counting=False)
    add(groups, [], [(1, 7, 0.0)], counting=False)
    assert groups.finished == [2.0, -1.0]


def test_who_joins_late_was_not_paid_before_and_agents_alone_are_no_group():
    groups = GroupReturns()
    add(groups, [(1, 7, 0.0), (9, 0, 5.0)])
    add(groups, [(1, 7, 1.0), (2, 7, 4.0)])
    add(groups, [], [(1, 7, -3.0), (2, 7, 1.0)])
    assert groups.finished == [-2.0]


def test_groups_that_begin_behind_the_counted_episodes_do_not_count():
    groups = GroupReturns()
    add(groups, [(1, 7, 0.0)], counting=False)
    add(groups, [], [(1, 7, 3.0)])
    assert groups.finished == [] and not groups.running


def test_a_member_that_leaves_its_group_does_not_keep_it_running():
    """Unregistered before it ends, as Unity reports with group 0, or moved to another group."""
    groups = GroupReturns()
    add(groups, [(1, 7, 0.0), (2, 7, 0.0)])
    add(groups, [(2, 7, 1.0)], [(1, 0, 0.0)])
    add(groups, [(2, 8, 4.0)])
    assert groups.finished == [1.0] and groups.running
    add(groups, [(3, 7, 9.0)], [(2, 8, 2.0)])
    assert groups.finished == [1.0, 2.0]
    add(groups, [], [(3, 0, 0.0)])
    assert groups.finished == [1.0, 2.0, 0.0] and not groups.running


def test_a_group_that_was_cut_begins_anew():
    groups = GroupReturns()
    add(groups, [(1, 7, 0.0), (2, 7, 0.0)])
    assert groups.cut(1) == {1, 2} and groups.cut(9) == {9}
    add(groups, [(2, 7, 5.0)])
    add(groups, [], [(2, 7, 3.0)])
    assert (groups.finished, groups.num_cut, groups.started) == ([0.0, 3.0], 1, 2)
