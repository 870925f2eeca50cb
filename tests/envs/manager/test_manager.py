"""EnvManager: many environments as one, none of which waits for another."""

import logging
import threading
from unittest.mock import Mock

import numpy as np
import pytest
from fake_engine import BALL, Factory, FakeEngine, ball_spec, decide, value
from lanista.envs.manager.async_env import AsyncEnv
from lanista.envs.manager.manager import EnvManager
from lanista.envs.manager.specs import SpecConflictError
from lanista.envs.unity import UnityEnvironment
from lanista.envs.validation import NonFiniteError, NonFinitePolicy
from mlagents_envs.exception import UnityEnvironmentException


def envs(steps):
    return [step.env for step in steps]


def test_a_unity_environment_has_what_the_manager_uses():
    names = [name for name in vars(AsyncEnv) if not name.startswith("_")]
    assert names
    assert all(hasattr(UnityEnvironment, name) for name in names)


def test_environments_are_launched_in_parallel(manage):
    barrier = threading.Barrier(8)  # broken, hence an error, if one launch waited for another
    factory = Factory()

    def make_env(env):
        barrier.wait(timeout=20)
        return factory(env)

    assert envs(manage(make_env, 8).reset()) == list(range(8))


def test_a_failure_of_the_very_first_start_is_an_error_at_once(manage):
    error = UnityEnvironmentException("no such executable")
    factory = Factory()
    others = threading.Barrier(3)

    def make_env(env):
        engine = factory(env)
        others.wait(20)
        if env == 2:
            raise error
        return engine

    manager = manage(make_env, 3, start=False)
    with pytest.raises(UnityEnvironmentException) as raised:
        manager.start()
    assert raised.value is error
    assert manager.restarts == 0
    for env in (0, 1):
        assert factory.newest(env).closed.wait(20), "an environment was left behind"


def test_a_thread_that_the_system_refuses_is_explained(manage, monkeypatch):
    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(UnityEnvironmentException, match=r"environment 0 .*new thread.*--num-envs"):
        manage(Factory(), 2, start=False)


def test_reset_returns_the_first_step_of_each_environment_in_order(manage):
    manager = manage(Factory(), 3)
    assert not manager.behavior_specs
    steps = manager.reset()
    assert envs(steps) == [0, 1, 2]
    assert all(step.fresh and not step.decisions for step in steps)
    assert dict(manager.behavior_specs) == {BALL: ball_spec()}


def test_a_step_carries_the_decisions_that_it_answers(manage):
    factory = Factory()
    manager = manage(factory, 2)
    manager.reset()
    decisions = {BALL: decide(0.9)}
    manager.send(1, decisions)
    (step,) = manager.wait(20)
    assert step.env == 1
    assert not step.fresh
    assert step.decisions is decisions
    sent = factory.newest(1).actions[BALL]
    assert sent.continuous == pytest.approx(0.3), "the engine gets env_action, not what was sampled"


def test_a_slow_environment_does_not_delay_the_others(manage):
    factory = Factory(lambda env, life, kind, n: not (env == 1 and kind == "step"))
    manager = manage(factory, 3)
    manager.reset()
    for env in range(3):
        manager.send(env, {})
    seen = {0: 0, 2: 0}
    while min(seen.values()) < 50:
        for step in manager.wait(20):
            seen[step.env] += 1
            manager.send(step.env, {})
    factory.newest(1).finish(True)
    steps = []
    while 1 not in envs(steps):
        steps = manager.wait(20)
        for env in set(envs(steps)) - {1}:
            manager.send(env, {})


def test_ordered_waits_for_all_that_were_sent_something(manage):
    factory = Factory(lambda env, life, kind, n: kind == "reset")
    manager = manage(factory, 3, ordered=True)
    manager.reset()
    manager.send(2, {})
    manager.send(0, {})
    factory.newest(2).finish(True)
    assert manager.wait(0.2) == []
    factory.newest(0).finish(True)
    assert envs(manager.wait(20)) == [0, 2]


def test_wait_returns_empty_handed_in_time(manage):
    manager = manage(Factory(lambda env, life, kind, n: kind == "reset"))
    manager.reset()
    manager.send(0, {})
    assert manager.wait(0.05) == []


def test_waiting_for_nothing_is_refused(manage):
    manager = manage(Factory())
    with pytest.raises(RuntimeError, match="reset"):
        EnvManager(Factory(), 1).reset()
    manager.reset()
    with pytest.raises(RuntimeError, match="sent anything"):
        manager.wait(1)


def test_nothing_can_be_sent_to_an_environment_that_has_not_answered(manage):
    manager = manage(Factory(lambda env, life, kind, n: kind == "reset"))
    manager.reset()
    manager.send(0, {})
    with pytest.raises(RuntimeError, match="environment 0 cannot be sent anything now"):
        manager.send(0, {})


def test_an_answer_that_is_not_announced_is_found(manage):
    factory = Factory()
    manager = manage(factory)
    factory.newest(0).announces = False
    assert envs(manager.reset()) == [0]


def test_answers_pending_at_a_reset_are_discarded(manage):
    factory = Factory(lambda env, life, kind, n: not (env == 0 and kind == "step"))
    manager = manage(factory, 2)
    manager.reset()
    manager.send(0, {BALL: decide(1.0)})
    threading.Timer(0.1, factory.newest(0).finish, [True]).start()
    steps = manager.reset()
    assert envs(steps) == [0, 1]
    assert all(step.fresh and not step.decisions for step in steps)
    assert factory.newest(0).log == ["reset", "step", "reset"]
    assert value(steps[0]) == (0, 3)


def test_parameters_come_before_the_reset_and_without_one(manage):
    factory = Factory()
    manager = manage(factory, 2)
    manager.reset({"mass": 1.0})
    manager.set_parameters({"scale": 2.0})
    manager.reset()
    for env in range(2):
        assert factory.newest(env).log == [{"mass": 1.0}, "reset", {"scale": 2.0}, "reset"]


def test_environments_that_disagree_about_a_behavior_are_named(manage):
    factory = Factory()
    manager = manage(factory, 2)
    factory.newest(1).spec = ball_spec(3)
    with pytest.raises(SpecConflictError, match=r"environment 1 and environment 0 .*'Ball\?team=0'"):
        manager.reset()


def test_values_that_are_not_finite_stop_the_run(manage):
    factory = Factory()
    manager = manage(factory, 2)
    factory.newest(1).values = (np.nan, 0.0)
    with pytest.raises(NonFiniteError, match=r"environment 1.*'Sensor' of agent 7"):
        manager.reset()


def test_dropped_agents_are_reported_with_the_step(manage, caplog):
    factory = Factory()
    manager = manage(factory, 2, non_finite=NonFinitePolicy.DROP)
    factory.newest(1).values = (np.nan, 4.0)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            fine, mended = manager.reset()
    assert not fine.void_agents
    assert mended.void_agents[BALL].tolist() == [7]
    assert value(mended) == (0, 4)
    assert len(caplog.records) == 1


def test_close_closes_all_in_parallel_and_may_be_repeated():
    factory = Factory()
    barrier = threading.Barrier(4)
    manager = EnvManager(factory, 4)
    manager.start()
    for env in range(4):
        engine = factory.newest(env)
        engine.close = lambda timeout=None, end=engine.closed.set: (barrier.wait(20), end())
    manager.close()
    manager.close()
    assert all(factory.newest(env).closed.is_set() for env in range(4))


@pytest.mark.parametrize("error", [None, SystemExit], ids=["an error", "sys.exit()"])
def test_an_environment_that_fails_to_close_does_not_keep_the_others_open(caplog, error):
    factory = Factory()
    with EnvManager(factory, 2) as manager:
        manager.start()
        factory.newest(0).closed.set()  # a second close is an error
        if error is not None:  # by which a thread would end in silence
            factory.newest(0).close = Mock(side_effect=error)
    assert factory.newest(1).closed.is_set()
    assert "environment 0 could not be closed in good order" in caplog.text


def test_closing_does_not_wait_for_a_launch():
    launching, closed, made = threading.Event(), threading.Event(), threading.Event()
    in_time = []
    engine = FakeEngine()

    def make_env(env):
        launching.set()
        in_time.append(closed.wait(5))
        made.set()
        return engine

    manager = EnvManager(make_env, 1)
    threading.Thread(target=manager.start, daemon=True).start()
    assert launching.wait(20)
    manager.close()
    closed.set()
    assert made.wait(20)
    assert in_time == [True], "close() waited for the launch"
    assert engine.closed.wait(20), "an environment that comes too late is closed"
