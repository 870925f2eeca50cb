"""Places and rosters: who of a group stood where when a step began, and who goes on behind a trajectory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.agent_processor.groups import GroupSlotsFullError
from lanista.agent_processor.rollout import build_rollout, select_trajectories
from lanista.agent_processor.trajectory import Rollout
from simple_engine import SimpleEngine, vector_spec


def teams_of(places: int = 3, horizon: int = 100) -> SimpleEngine:
    """Agents see `100 * agent + time` and act `agent % 3`, so that rows can be told apart."""
    return SimpleEngine(
        horizon, vector_spec((1,), branches=(3,)), lambda agent, time: 100 * agent + time, 1, places=places
    )


def seen(rows: Rollout, table: np.ndarray) -> list[list[int]]:
    """What stands at the places of a roster, as agents' observations; -1 where nobody is."""
    return np.where(table >= 0, rows.obs[0][table, 0], -1).astype(int).tolist()


def test_agents_that_decide_together_are_in_each_others_rosters() -> None:
    teams = teams_of()
    teams.step([7, 5])
    teams.step([7, 5])
    rows = build_rollout(teams.step([], [7, 5]))
    assert seen(rows, rows.roster) == [[700, 500, -1], [701, 501, -1]] * 2
    assert seen(rows, rows.next_roster) == [[-1] * 3] * 2
    own = np.arange(rows.steps)
    assert (rows.roster == own[:, None]).sum(1).tolist() == [1] * 4
    assert rows.discrete[rows.roster[0, :2], 0].tolist() == [1, 2]


def test_a_dying_member_has_its_teammates_at_that_moment_and_the_survivors_after_it() -> None:
    teams = teams_of()
    teams.step([1, 2, 3])
    (died,) = teams.step([1, 3], [2])
    rows = build_rollout([died])
    assert seen(rows, rows.roster) == [[100, 200, 300]]
    assert seen(rows, rows.next_roster) == [[101, -1, 301]]
    rows = build_rollout(teams.step([], [1, 3]))
    assert seen(rows, rows.roster) == [[100, 200, 300], [101, -1, 301]] * 2


def test_a_late_joiner_gets_the_lowest_unused_slot() -> None:
    teams = teams_of(places=4)
    teams.step([1, 2])
    teams.step([2], [1])
    teams.step([2, 3])
    rows = build_rollout(teams.step([], [2, 3]))
    assert seen(rows, rows.roster)[-1] == [-1, 202, 302, -1]
    assert teams.manager.places(0, np.array([9])).shape == (1,)


def test_a_group_without_living_members_starts_over_even_in_the_same_message() -> None:
    teams = teams_of(places=2)
    teams.step([1, 2])
    for tick in range(5):
        ended = teams.step([2, 1], [1, 2])
        rows = build_rollout(ended)
        assert seen(rows, rows.next_roster) == [[-1, -1]] * 2
        first, second = (100, 200) if tick == 0 else (200, 100)
        assert seen(rows, rows.roster) == [[first + tick, second + tick]] * 2


def test_an_interrupted_group_is_followed_by_its_last_observations() -> None:
    teams = teams_of()
    teams.step([1, 2])
    rows = build_rollout(teams.step([4], [1, 2], interrupted=True))
    assert seen(rows, rows.next_roster) == [[101, 201, -1]] * 2, "not those of the next episode"
    rows = build_rollout(teams.step([], [4]))
    assert seen(rows, rows.roster) == [[401, -1, -1]]


def test_a_member_that_is_interrupted_alone_stands_beside_no_later_step() -> None:
    teams = teams_of()
    teams.step([1, 2, 3])
    rows = build_rollout(teams.step([1, 3], [2], interrupted=True))
    assert seen(rows, rows.next_roster) == [[101, 201, 301]]
    rows = build_rollout(teams.step([], [1, 3]))
    assert seen(rows, rows.roster) == [[100, 200, 300], [101, -1, 301]] * 2


def test_a_truncated_trajectory_is_followed_by_the_current_observations_of_all() -> None:
    teams = teams_of(horizon=2)
    teams.step([1, 2])
    teams.step([1, 2])
    rows = build_rollout(teams.step([1, 2, 3]))
    assert seen(rows, rows.next_roster) == [[102, 202, 302]] * 2


def test_members_that_decide_at_other_times_stand_with_the_last_that_they_saw() -> None:
    teams = teams_of()
    teams.step([1, 2])
    teams.step([1])
    teams.step([1, 2])
    rows = build_rollout(teams.step([], [1, 2]))
    assert seen(rows, rows.roster)[:3] == [[100, 200, -1], [101, 200, -1], [102, 202, -1]]


def test_agents_without_a_group_stand_alone_and_groups_apart() -> None:
    teams = teams_of()
    groups = {1: 0, 2: -1, 3: 1, 4: 2, 5: 1}  # what is not above 0 is no group
    teams.step([1, 2, 3, 4, 5], group=groups)
    teams.step([6], group=1, env=1)
    rows = build_rollout(teams.step([], [1, 2, 3, 4, 5], group=groups) + teams.step([], [6], group=1, env=1))
    alone = [-1, -1]
    assert seen(rows, rows.roster) == [
        *[[100, *alone], [200, *alone]],
        *[[300, 500, -1], [400, *alone], [300, 500, -1], [601, *alone]],
    ]


def test_more_members_than_slots_is_an_error_that_names_the_setting() -> None:
    teams = teams_of(places=2)
    teams.step([1, 2])
    teams.step([1], [2])
    with pytest.raises(GroupSlotsFullError, match=r"group 1 of environment 0.*max_num_agents, which is 2"):
        teams.step([1, 3])


def test_a_reset_frees_all_slots_and_a_void_agent_its_own() -> None:
    teams = teams_of(places=2)
    teams.step([1, 2])
    teams.manager.reset_agents(0, np.array([1]))
    teams.waiting[0] = [2]
    rows = build_rollout(teams.step([], [2]))
    assert seen(rows, rows.roster) == [[100, 200]], "as it was when the step began"
    teams.step([1, 2])
    teams.manager.end_episode(0)
    teams.waiting.clear()
    teams.step([8, 9])
    rows = build_rollout(teams.step([], [8, 9]))
    assert seen(rows, rows.roster) == [[803, 903]] * 2


def test_exploration_is_kept_with_each_step() -> None:
    teams = teams_of()
    teams.step([1])
    teams.step([1], exploration=0.5)
    rows = build_rollout(teams.step([], [1], exploration=0.25))
    assert rows.exploration.tolist() == [0.5, 0.25]


def test_some_trajectories_of_a_rollout_keep_their_rosters() -> None:
    teams = teams_of()
    teams.step([1, 2])
    rows = build_rollout(teams.step([3], [1, 2], interrupted=True))
    some = select_trajectories(rows, np.array([False, True]))
    assert seen(some, some.roster) == [[100, 200, -1]]
    assert some.roster[0, 1] == 0
    assert seen(some, some.next_roster) == [[101, 201, -1]]


def test_without_rosters_there_are_none() -> None:
    teams = teams_of(places=0)
    teams.step([1, 2])
    rows = build_rollout(teams.step([], [1, 2]))
    assert rows.roster is None
    assert rows.next_roster is None
    assert rows.exploration is None


@given(st.data())
def test_rosters_equal_those_of_a_simple_model(data: st.DataObject) -> None:
    """Members of one group come, fall silent and go; each row is checked against what was said."""
    teams = teams_of(places=12, horizon=data.draw(st.integers(1, 6)))
    teams.manager._rows.__init__(teams.spec, block_rows=4, places=12)
    place: dict[int, int] = {}
    newest: dict[int, int] = {}
    expected: dict[int, dict[int, int]] = {}
    fresh, trajectories = iter(range(1, 100)), []
    for tick in range(data.draw(st.integers(1, 12))):
        end = [a for a in newest if data.draw(st.integers(0, 4)) == 0]
        newest = {a: n for a, n in newest.items() if a not in end}
        if not newest:
            place = {}
        deciding = [a for a in newest if data.draw(st.integers(0, 3)) > 0]
        for _ in range(data.draw(st.integers(0, 2))):
            if len(place) < 12:
                deciding.append(next(fresh))
                place[deciding[-1]] = len(place)
        for agent in deciding:
            newest[agent] = 100 * agent + tick
        for agent in deciding:
            expected[newest[agent]] = {place[a]: n for a, n in newest.items()}
        trajectories += teams.step(deciding, end, interrupted=data.draw(st.booleans()))
    if trajectories:
        rows = build_rollout(trajectories)
        for own, there in zip(rows.obs[0][: rows.steps, 0].tolist(), seen(rows, rows.roster), strict=True):
            assert {p: n for p, n in enumerate(there) if n >= 0} == expected[int(own)]
