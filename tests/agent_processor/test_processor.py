"""The processor's surface: errors, statistics, queues; and rollouts of several trajectories."""

import numpy as np
import pytest
from lanista.agent_processor.processor import AgentManager
from lanista.agent_processor.queues import AgentManagerQueue
from lanista.agent_processor.rollout import build_rollout
from lanista.agent_processor.trajectory import Trajectory
from mlagents_envs.base_env import DecisionSteps, TerminalSteps
from simple_engine import ListSink, SimpleEngine, vector_spec

SPEC = vector_spec((2,), continuous=1)


def decisions(ids: list[int], width: int = 2) -> DecisionSteps:
    n = len(ids)
    numbers = np.zeros(n, np.float32)
    obs = [np.zeros((n, width), np.float32)]
    return DecisionSteps(obs, numbers, np.array(ids, np.int32), None, np.zeros(n, np.int32), numbers)


def test_an_id_may_not_decide_twice_in_one_step() -> None:
    manager = AgentManager("B?team=0", SPEC, 10, ListSink())
    with pytest.raises(ValueError, match="environment 3: agent 7 appears twice"):
        manager.add_experiences(decisions([5, 7, 7]), TerminalSteps.empty(SPEC), 3, None)


def test_an_observation_of_another_shape_is_named() -> None:
    manager = AgentManager("B?team=0", SPEC, 10, ListSink())
    with pytest.raises(ValueError, match=r"'sensor0'.*\(1, 3\); expected \(1, 2\)"):
        manager.add_experiences(decisions([5], width=3), TerminalSteps.empty(SPEC), 0, None)
    two = decisions([5])
    two.obs = two.obs * 2
    with pytest.raises(ValueError, match="2 observations"):
        manager.add_experiences(two, TerminalSteps.empty(SPEC), 0, None)


def test_a_time_horizon_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="time_horizon is 0"):
        AgentManager("B?team=0", SPEC, 0, ListSink())


def test_a_recurrent_decision_must_bring_its_memory() -> None:
    engine = SimpleEngine(4)
    engine.manager = AgentManager("B?team=0", engine.spec, 4, engine.sink, memory_size=6)
    engine.step([1])
    with pytest.raises(ValueError, match="without memory; expected 6"):
        engine.step([1])


def test_every_queue_gets_every_trajectory_and_the_bound_is_the_managers() -> None:
    engine = SimpleEngine(2)
    second: AgentManagerQueue[Trajectory] = AgentManagerQueue("B?team=0")
    engine.manager.publish_trajectory_queue(second)
    own = played(engine)
    assert [t.behavior_id for t in own] == ["B?team=0"] * len(own)
    assert second.drain() == own
    assert engine.manager.trajectory_queue.maxlen == 0
    assert AgentManager("B?team=0", SPEC, 10, ListSink(), max_queued=20).trajectory_queue.maxlen == 20


def played(engine: SimpleEngine) -> list[Trajectory]:
    """The trajectories of two groups that go on for five steps, of which one ends."""
    trajectories: list[Trajectory] = []
    for _ in range(5):
        trajectories += engine.step([1, 2, 3], group=1, env=0)
        trajectories += engine.step([4, 5], group=1, env=1)
    return trajectories + engine.step([], end=[1, 2, 3], group=1, env=0)


def test_a_rollout_holds_every_row_once_and_its_own_first() -> None:
    trajectories = played(SimpleEngine(2))
    for chosen in (trajectories, trajectories[1:2], trajectories[::-1]):
        rows = build_rollout(chosen)
        own = np.concatenate([t.rows for t in chosen])
        mates = np.concatenate([np.unique(t.teammates) for t in chosen if t.teammates is not None])
        assert rows.steps == len(own)
        assert len(rows.reward) == len(set(own.tolist()) | set(mates[mates >= 0].tolist()))
        assert rows.teammates is not None
        assert rows.teammates.shape[0] == rows.steps
        assert rows.teammates.max() < len(rows.reward)


def test_teammates_can_be_left_out() -> None:
    trajectories = played(SimpleEngine(2))
    rows = build_rollout(trajectories[:1], with_teammates=False)
    assert len(rows.reward) == rows.steps == len(trajectories[0])
    assert rows.teammates is None
    assert rows.next_teammates_obs is None
    assert rows.next_teammates.tolist() == [0]


def test_trajectories_of_two_behaviors_share_a_rollout_if_their_specs_agree() -> None:
    ours, theirs = played(SimpleEngine(2)), played(SimpleEngine(3))
    both = build_rollout([*ours, *theirs])
    own = [r.obs[0][: r.steps] for r in (build_rollout(ours), build_rollout(theirs))]
    np.testing.assert_array_equal(both.obs[0][: both.steps], np.concatenate(own))
    with pytest.raises(ValueError, match="cannot share a rollout"):
        build_rollout([*ours, *played(SimpleEngine(2, vector_spec((3,), (3,), continuous=1)))])


def test_a_rollout_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        build_rollout([])
