"""Where an agent gets other weights, its trajectory is cut as by a time horizon: each is of one policy."""

from itertools import groupby

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from simple_engine import SimpleEngine, vector_spec

TIMES = 16
DEATH, END = 5, 11
"""Agent 2 dies early; then the episodes of all end, and new ones begin in the same message."""


def played(horizon, snapshots):
    """Trajectories of a group of two; `snapshots` [TIMES]: whether a snapshot decides at that time."""
    spec = vector_spec((1,), continuous=1)
    seen = lambda agent, time: 100 * agent + time  # noqa: E731
    game = SimpleEngine(horizon, spec, seen, group=7, memory_size=2, places=2)
    found = []
    for time, decided in enumerate([False, *snapshots][:TIMES]):
        ends = {DEATH: [2], END: [1]}.get(time, [])
        alive = [1] if DEATH <= time < END else [1, 2]
        found += game.step(alive, ends, by_snapshot=decided)
    lengths = [value for name, value, _ in game.sink.stats if name == "Environment/Episode Length"]
    return found, lengths


def observed(trajectory, rows):
    return [float(trajectory.blocks.obs(np.array([row]))[0][0, 0]) if row >= 0 else None for row in rows]


def after(trajectory):
    """What follows a trajectory, as far as critics read it."""
    return {
        "obs": observed(trajectory, [trajectory.next_row]),
        "mates": observed(trajectory, trajectory.next_teammates),
        "roster": observed(trajectory, trajectory.next_roster),
        "agents": trajectory.next_agents.tolist(),
        "ended": (trajectory.done_reached, trajectory.interrupted, trajectory.all_group_dones_reached),
    }


@given(st.lists(st.booleans(), min_size=TIMES, max_size=TIMES), st.integers(2, 9))
def test_trajectories_are_of_one_policy_and_end_as_at_a_time_horizon(snapshots, horizon):
    steps, lengths = played(1, [False] * TIMES)
    by_step = {observed(one, one.rows)[0]: one for one in steps}
    found, counted = played(horizon, snapshots)
    assert counted == lengths
    for trajectory in found:
        times = [observation % 100 for observation in observed(trajectory, trajectory.rows)]
        assert {snapshots[int(time)] for time in times} == {trajectory.by_snapshot}
        assert len(times) <= horizon
        last = observed(trajectory, trajectory.rows)[-1]
        expected = after(by_step[last])
        if last == 100 + DEATH - 1 and len(times) < horizon:
            # At a time horizon, a teammate that dies in the same step still counts, as in ML-Agents.
            assert expected["mates"] == [200.0 + DEATH]
            expected["mates"] = []
        assert after(trajectory) == expected
    # Nothing is missing, twice there or out of order but what is still open.
    for agent in (1, 2):
        whole = [x for one in found if one.agent.agent == agent for x in observed(one, one.rows)]
        steps_of_one = [x for x in by_step if x // 100 == agent]
        assert whole == steps_of_one[: len(whole)] and len(steps_of_one) - len(whole) < horizon


@given(st.lists(st.booleans(), min_size=TIMES, max_size=TIMES))
def test_cuts_are_where_the_policy_changes_and_nowhere_else(snapshots):
    found, _ = played(100, snapshots)
    decided = snapshots[:END]
    runs = [len(list(run)) for _, run in groupby(decided)]
    assert [len(one) for one in found if one.agent.agent == 1][: len(runs)] == runs


def test_without_snapshots_nothing_is_cut():
    assert [len(one) for one in played(100, [False] * TIMES)[0]] == [DEATH, END]
