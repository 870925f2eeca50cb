"""EnvManager when engines die or hang: they are restarted alone, and the others do not notice."""

import logging
import random
import threading

import console_runs
import numpy as np
import pytest
from fake_engine import BALL, Clock, Factory, FakeEngine, ball_spec, ball_steps, decide, value
from lanista.envs.errors import RefusedByAddonError
from lanista.envs.manager.manager import EnvManager
from lanista.envs.manager.restarts import EngineStopped, RestartLimitError, RestartLimits, StopAsked
from lanista.envs.manager.specs import SpecConflictError
from mlagents_envs.base_env import DecisionSteps
from mlagents_envs.exception import (
    UnityCommunicationException,
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
    UnitySideChannelException,
    UnityTimeOutException,
)

CRASH = UnityEnvironmentException("it crashed")
FREELY = RestartLimits(-1, -1, 60)


def crashing(error=CRASH, **options):
    """Environments whose first life fails at the first step."""
    return Factory(lambda env, life, kind, n: error if life == 0 and kind == "step" else True, **options)


def sent(manager):
    """A manager whose only environment has been sent a step."""
    manager.reset()
    manager.send(0, {})
    return manager


def until(manager, env):
    """Step all others until `env` has answered; its step, and how many others came before."""
    others = 0
    while True:
        found = None
        for step in manager.wait(20):
            if step.env == env:
                found = step
            else:
                others += 1
                manager.send(step.env, {})
        if found is not None:
            return found, others


@pytest.mark.parametrize(
    "error",
    [
        CRASH,
        UnityTimeOutException("slow"),
        UnityCommunicationException("malformed"),
        UnityCommunicatorStoppedException("quit"),
        UnitySideChannelException("unreadable"),
    ],
)
def test_a_failed_engine_is_restarted_alone(manage, caplog, error):
    factory = Factory(lambda env, life, kind, n: error if (env, life, n) == (1, 0, 3) else True)
    manager = manage(factory, 3)
    with caplog.at_level(logging.WARNING):
        for step in manager.reset({"mass": 2.0}):
            manager.send(step.env, {})
        for expected in (2, 3):
            step, _ = until(manager, 1)
            assert value(step) == (0, expected)
            manager.send(1, {BALL: decide(1.0)})
        step, _ = until(manager, 1)
    assert step.fresh
    assert not step.decisions
    assert value(step) == (1, 1)
    assert factory.made[1][0].closed.is_set()
    assert factory.newest(1).log == [{"mass": 2.0}, "reset"], "it starts with the run's parameters"
    assert [len(factory.made[env]) for env in range(3)] == [1, 2, 1]
    assert [factory.newest(env).log.count("reset") for env in (0, 2)] == [1, 1], "others go on unharmed"
    assert manager.restarts == 1
    assert "Restarting environment 1 after" in caplog.text


@pytest.mark.parametrize("slow", ["launch", "close"])
def test_others_go_on_while_an_engine_is_restarted(manage, slow):
    go_on = threading.Event()
    factory = Factory(lambda env, life, kind, n: CRASH if (env, life, kind) == (0, 0, "step") else True)

    def make_env(env):
        if slow == "launch" and factory.made.get(env):
            go_on.wait(20)
        return factory(env)

    manager = manage(make_env, 2)
    steps = manager.reset()
    if slow == "close":
        factory.newest(0).close = lambda timeout=None: go_on.wait(20)
    for step in steps:
        manager.send(step.env, {})
    for _ in range(50):
        (step,) = manager.wait(20)
        assert step.env == 1
        manager.send(1, {})
    go_on.set()
    assert until(manager, 0)[0].fresh


def test_a_silent_engine_is_noticed_after_its_own_timeout(manage):
    clock = Clock()
    factory = Factory(lambda env, life, kind, n: not (env == 0 and life == 0 and kind == "step"))
    manager = manage(factory, 2, clock=clock)
    steps = manager.reset()
    hung = factory.newest(0)
    hung.timeout_wait = 30.0
    for step in steps:
        manager.send(step.env, {})
    for _ in range(299):  # the other one answers all the time
        clock.pass_(0.1)
        (step,) = manager.wait(20)
        assert step.env == 1
        manager.send(1, {})
    assert "overdue" not in hung.log
    clock.pass_(0.2)
    step, _ = until(manager, 0)
    assert hung.log[-1] == "overdue"
    assert hung.closed.is_set()
    assert step.fresh


def test_time_in_which_nobody_polled_is_not_held_against_the_engine(manage):
    """A long update, or a suspended machine: the answer may be under way."""
    clock = Clock()
    factory = Factory(lambda env, life, kind, n: kind == "reset")
    manager = sent(manage(factory, 1, clock=clock))
    engine = factory.newest(0)
    clock.pass_(3600)
    threading.Timer(0.2, engine.finish, [True]).start()
    (step,) = manager.wait()
    assert not step.fresh
    assert manager.restarts == 0


def test_such_time_extends_an_engines_timeout_only_once(manage):
    clock = Clock()
    factory = Factory(lambda env, life, kind, n: not (env == 0 and life == 0 and kind == "step"))
    manager = manage(factory, 2, clock=clock)
    for step in manager.reset():
        manager.send(step.env, {})
    for _ in range(3):  # updates of an hour each, between which only the other one answers
        clock.pass_(3600)
        for step in manager.wait(20):
            manager.send(step.env, {})
    assert manager.restarts == 1


def test_beyond_the_limits_the_cause_is_raised_with_its_history(manage):
    clock = Clock()
    factory = Factory(lambda env, life, kind, n: CRASH if kind == "step" else True)
    manager = manage(factory, 2, clock=clock)
    manager.reset()
    clock.pass_(5)
    manager.send(0, {})
    (step,) = manager.wait(20)
    assert step.fresh
    clock.pass_(59)
    manager.send(0, {})
    with pytest.raises(RestartLimitError) as raised:
        manager.wait(20)
    assert raised.value.__cause__ is CRASH
    text = str(raised.value)
    for part in (
        "environment 0",
        "5.0 s after the start: UnityEnvironmentException: it crashed",
        "64.0 s after the start",
        "10 in a run, 1 within 60 s",
        "The last one in full: it crashed",
        "env_settings.max_lifetime_restarts",
    ):
        assert part in text


def test_limits_are_each_environments_own(manage):
    manager = manage(crashing(), 4, ordered=True)
    manager.reset()
    for env in range(4):
        manager.send(env, {})
    assert [step.fresh for step in manager.wait(20)] == [True] * 4


@pytest.mark.parametrize("env", range(3))
def test_a_crash_during_the_first_reset_is_an_error_at_once(manage, env):
    """Whether others have answered before or not."""
    factory = Factory(lambda index, life, kind, n: CRASH if index == env else True)
    manager = manage(factory, 3, limits=FREELY)
    with pytest.raises(UnityEnvironmentException) as raised:
        manager.reset()
    assert raised.value is CRASH
    assert manager.restarts == 0


def test_a_crash_during_a_later_reset_is_mended(manage):
    factory = Factory(lambda env, life, kind, n: CRASH if (env, life, n) == (1, 0, 1) else True)
    manager = manage(factory, 2)
    manager.reset()
    assert [value(step) for step in manager.reset()] == [(0, 2), (1, 1)]


def test_two_agents_with_one_id_are_a_failure_of_their_engine(manage, caplog):
    factory = Factory()
    manager = manage(factory, 2)
    steps = manager.reset()
    (alone, terminals) = ball_steps(7, 0.0, 0.0)
    ids, zeros = np.array([7, 3, 7], np.int32), np.zeros(3, np.float32)
    twice = DecisionSteps([np.repeat(alone.obs[0], 3, axis=0)], zeros, ids, None, 0 * ids, zeros)
    factory.newest(0).get_steps = lambda name: (twice, terminals)
    for step in steps:
        manager.send(step.env, {})
    step, _ = until(manager, 0)
    assert step.fresh and manager.restarts == 1
    assert f"environment 0, behavior '{BALL}': agent 7 asks for 2 decisions in one step" in caplog.text


def test_an_engine_that_cannot_be_sent_anything_is_restarted(manage):
    factory = Factory()
    manager = manage(factory)
    manager.reset()

    def send_step():
        raise CRASH

    factory.newest(0).send_step = send_step
    manager.send(0, {})
    (step,) = manager.wait(20)
    assert step.fresh


def test_a_launch_that_fails_counts_as_a_failure(manage):
    factory = crashing(fail=lambda env, life: UnityTimeOutException("silent") if life in (1, 2) else None)
    manager = sent(manage(factory, limits=RestartLimits(5, -1, 60)))
    (step,) = manager.wait(20)
    assert value(step) == (3, 1)
    assert manager.restarts == 3


STOP = UnityCommunicatorStoppedException("Communicator has exited.")
FINAL = {
    "a bug in make_env": (
        crashing(fail=lambda env, life: KeyError("a bug in make_env") if life else None),
        {"limits": FREELY},
        (KeyError, "a bug in make_env"),
    ),
    "an error of another kind": (
        crashing(ZeroDivisionError()),
        {"limits": FREELY},
        (ZeroDivisionError, None),
    ),
    "a game that its addon has refused": (
        crashing(RefusedByAddonError("it observes 3 numbers")),
        {"limits": FREELY},
        (RefusedByAddonError, "^it observes 3 numbers"),
    ),
    "Stop in the Editor": (
        crashing(STOP),
        {"editor": True},
        (EngineStopped, "The editor has ended the session"),
    ),
    "a game that quits too often": (
        crashing(STOP),
        {"limits": RestartLimits(0)},
        (RestartLimitError, "ended the session, and the limits"),
    ),
}


@pytest.mark.parametrize("case", FINAL)
def test_what_a_restart_cannot_mend_ends_the_run(manage, case):
    factory, options, (error, message) = FINAL[case]
    manager = sent(manage(factory, **options))
    with pytest.raises(error, match=message) as raised:
        manager.wait(20)
    assert len(factory.made[0]) == 1
    assert isinstance(raised.value, UnityCommunicatorStoppedException) == (error is EngineStopped)


def test_a_reset_waits_for_an_engine_that_is_being_restarted(manage):
    factory = Factory(lambda env, life, kind, n: CRASH if (env, life, kind) == (0, 0, "step") else True)
    manager = manage(factory, 2)
    manager.reset({"mass": 1.0})
    manager.send(0, {})
    manager.send(1, {})
    while manager.restarts == 0:
        manager.wait(20)
    steps = manager.reset({"mass": 2.0})
    assert [step.env for step in steps] == [0, 1]
    assert {"mass": 2.0} in factory.newest(0).log
    assert factory.newest(0).log[-1] == "reset"


def test_announcements_of_a_former_life_are_ignored(manage):
    clock = Clock()
    factory = Factory(lambda env, life, kind, n: kind == "reset")
    manager = sent(manage(factory, clock=clock))
    former = factory.newest(0)
    announce = former.on_arrival
    assert manager.wait(0.0) == []
    clock.pass_(61)
    assert manager.wait(0.0) == []
    clock.pass_(2)  # the extension for an absence is over, too
    (step,) = manager.wait()
    assert step.fresh
    manager.send(0, {})
    announce()
    threading.Timer(0.2, factory.newest(0).finish, [True]).start()
    (step,) = manager.wait()
    assert value(step) == (1, 2)


def test_a_restarted_engine_of_another_build_is_named(manage):
    def make_env(env):
        life = len(made)
        made.append(FakeEngine(life, lambda kind, n: CRASH if kind == "step" else True, ball_spec(2 + life)))
        return made[-1]

    made: list[FakeEngine] = []
    manager = sent(manage(make_env))
    with pytest.raises(SpecConflictError, match="environment 0"):
        manager.wait(20)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_under_random_failures_every_life_is_gapless(manage, seed, ordered):
    """Each environment's steps come one by one, and the first step of a new life is fresh."""
    chance = random.Random(seed)

    def play(env, life, kind, n):
        return CRASH if (life or n) and chance.random() < 0.1 else True

    def fail(env, life):
        return UnityTimeOutException("no greeting") if life and chance.random() < 0.1 else None

    manager = manage(Factory(play, fail), 5, limits=FREELY, ordered=ordered)
    latest = {}
    answers = manager.reset()
    for _ in range(400):
        for step in answers:
            life, count = value(step)
            if step.fresh:
                assert count == 1
                assert step.env not in latest or life > latest[step.env][0]
                assert not step.decisions
            else:
                assert (life, count) == (latest[step.env][0], latest[step.env][1] + 1)
                assert set(step.decisions) == {BALL}
            latest[step.env] = (life, count)
            manager.send(step.env, {BALL: decide(0.5)})
        answers = manager.wait(20)
        assert answers
        if ordered:
            assert len(answers) == 5
    assert manager.restarts > 10


def test_restarts_leave_no_threads(manage):
    factory = Factory(lambda env, life, kind, n: CRASH if kind == "step" else True)
    manager = manage(factory, limits=FREELY)
    manager.reset()
    before = threading.active_count()
    for _ in range(20):
        manager.send(0, {})
        assert manager.wait(20)[0].fresh
    assert console_runs.until(lambda: threading.active_count() <= before)
    assert len(manager._events.wait(0.0)) <= 1


@pytest.mark.parametrize("awaited", ["start", "reset"])
def test_who_wants_the_end_does_not_wait_for_an_engine_that_is_silent(awaited):
    started = threading.Event()

    def never(index):
        started.set()
        return threading.Event().wait()

    silent = Factory(lambda env, life, kind, n: False)
    manager = EnvManager(never if awaited == "start" else silent, 1)
    if awaited == "reset":
        manager.start()
        started.set()
    manager.should_stop = started.is_set
    with pytest.raises(StopAsked):
        getattr(manager, awaited)()
    manager.close(at_once=True)
