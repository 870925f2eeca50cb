"""A lost life ends a trajectory for good, and the episode goes on."""

import numpy as np
from lanista.agent_processor.rollout import build_rollout, select_trajectories
from lanista.trainers.trainer.episode_stats import EpisodeStats
from simple_engine import ListSink, SimpleEngine, vector_spec


def engine(horizon=100, **manager):
    """Agents 1 and 2 of environment 3, whose observation is the time and whose reward is always 1."""
    spec = vector_spec((1,), continuous=1)
    return SimpleEngine(horizon, spec, lambda agent, time: time, memory_size=2, **manager)


def step(game, lost=(), over=()):
    return game.step([agent for agent in (1, 2) if agent not in over], over, env=3, lost=lost)


def played(game):
    """Agent 1 loses a life at the third step and ends at the fifth; agent 2 ends with it."""
    return [
        t for k in range(6) for t in step(game, lost=[1] if k == 3 else [], over=[1, 2] if k == 5 else [])
    ]


def test_the_trajectory_terminates_and_the_agent_continues_where_it_is():
    lost, first, second = played(engine())
    rows = build_rollout([lost, first, second])
    assert [t.agent.agent for t in (lost, first, second)] == [1, 1, 2]
    assert rows.lengths.tolist() == [3, 2, 5]
    assert rows.obs[0][:, 0].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]
    assert rows.next_obs[0][:, 0].tolist() == [3, 5, 5]
    assert rows.done_reached.tolist() == [True, True, True]
    assert not rows.interrupted_at_end.any()
    assert rows.episode_over.tolist() == [False, True, True]
    assert np.flatnonzero(rows.done).tolist() == [2, 4, 9]
    # It goes on with what it remembers: a player does too, who is told of no lives.
    assert rows.memory[:, 0].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]
    assert select_trajectories(rows, np.array([True, False, True])).episode_over.tolist() == [False, True]


def test_statistics_count_whole_games():
    game = engine(by_worker=True)
    trajectories = played(game)
    for key in ("Environment/Episode Length", "Environment/Worker 3/Episode Length"):
        assert [value for name, value, _ in game.sink.stats if name == key] == [4, 4]
    episodes, sink = EpisodeStats(["extrinsic"]), ListSink()
    episodes.by_worker = True
    for trajectory in trajectories:
        rows = build_rollout([trajectory])
        episodes.add(rows, {"extrinsic": rows.reward}, sink)
    for key in ("Environment/Cumulative Reward", "Environment/Worker 3/Cumulative Reward"):
        assert [value for name, value, _ in sink.stats if name == key] == [5, 5]
    assert not episodes.sums


def test_nothing_is_reported_by_environment_unless_wanted():
    game = engine()
    played(game)
    assert not [name for name, *_ in game.sink.stats if "Worker" in name]


def test_the_horizon_cuts_as_ever():
    trajectories = played(engine(horizon=2))
    told = [(t.agent.agent, len(t), t.done_reached, t.life_lost) for t in trajectories]
    cut, lost, over = (False, False), (True, True), (True, False)
    assert sorted(told) == sorted(
        [(1, 2, *cut), (2, 2, *cut), (1, 1, *lost), (2, 2, *cut), (1, 2, *over), (2, 1, *over)]
    )


def test_a_life_lost_at_the_horizon_is_a_true_end():
    first = next(t for t in played(engine(horizon=3)) if t.agent.agent == 1)
    assert (len(first), first.done_reached, first.life_lost) == (3, True, True)


def test_the_lives_of_agents_that_are_not_known_are_of_no_interest():
    game = engine()
    step(game)
    assert step(game, lost=[7]) == []
    game.manager.reset_agents(3, np.array([1], np.int32))
    assert step(game, lost=[1]) == []


def test_a_team_critic_sees_no_members_after_a_lost_life():
    game = engine(places=2)
    lost = [t for k in range(3) for t in step(game, lost=[1] if k == 2 else [])]
    assert [t.next_roster.tolist() for t in lost] == [[-1, -1]]
    assert lost[0].next_agents.tolist() == [-1, -1]
