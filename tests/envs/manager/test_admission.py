"""EnvManager with a source of environments: they come and go while the run is under way."""

import logging
import queue
import threading
from collections.abc import Callable

import console_runs
import pytest
from fake_engine import BALL, FakeEngine, ball_spec, decide
from lanista.envs.manager.manager import EnvManager
from mlagents_envs.base_env import BehaviorSpec
from mlagents_envs.exception import UnityCommunicatorStoppedException, UnityEnvironmentException

HUNG_UP = UnityCommunicatorStoppedException("Communicator has exited. It hung up.")
PATIENCE = 20


class FakePendingEnv:
    """An engine that wants to join."""

    def __init__(self, number: int, engine: FakeEngine | BaseException) -> None:
        self.where = f"guest {number}"
        self.engine = engine
        self.index: int | None = None
        self.reason = ""
        self.in_vain = 0
        self.free = threading.Event()
        self.free.set()

    def make(self, index: int) -> FakeEngine:
        self.index = index
        self.free.wait(PATIENCE)
        if isinstance(self.engine, BaseException):
            raise self.engine
        return self.engine

    def on_rejected(self) -> None:
        self.in_vain += 1

    def close_with_reason(self, reason: str) -> None:
        self.reason = reason


class FakeSource:
    where = "the address"

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[FakePendingEnv] = queue.SimpleQueue()
        self._announce: Callable[[], None] = lambda: None
        self._count = 0
        self.closed = False

    def add(self, engine: FakeEngine | BaseException | None = None, *, held: bool = False) -> FakePendingEnv:
        guest = FakePendingEnv(self._count, engine or FakeEngine(self._count))
        self._count += 1
        if held:
            guest.free.clear()
        self._waiting.put(guest)
        self._announce()
        return guest

    def open(self, announce: Callable[[], None]) -> None:
        self._announce = announce
        announce()

    def next(self) -> FakePendingEnv | None:
        return None if self._waiting.empty() else self._waiting.get_nowait()

    def refusal(self, behavior: str, spec: BehaviorSpec, among_others: bool) -> str | None:
        return "nobody trains it" if behavior != BALL else None

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def source():
    return FakeSource()


@pytest.fixture
def manage(manage, source):
    """Makes started managers with this many environments from the source."""

    def manage_guests(num_envs: int = 1) -> EnvManager:
        for _ in range(num_envs):
            source.add()
        return manage(None, num_envs, source=source)

    return manage_guests


def values(steps) -> dict[int, tuple]:
    return {step.env: tuple(step.steps[BALL][0].obs[0][0].tolist()) for step in steps if not step.left}


def answer(manager: EnvManager, steps) -> None:
    for step in steps:
        if not step.left:
            manager.send(step.env, {BALL: decide(1.0)})


def until(manager: EnvManager, wanted: Callable) -> list:
    """Go on until a step is as wanted; all steps on the way there."""
    seen = []
    while not any(map(wanted, seen)):
        steps = manager.wait(PATIENCE)
        assert steps, "nothing happens any more"
        seen += steps
        answer(manager, steps)
    return seen


def test_the_run_begins_when_enough_environments_have_come(manage, source, caplog):
    with caplog.at_level(logging.INFO):
        manager = manage(3)
        assert "has joined" not in caplog.text
        steps = manager.reset({"mass": 2.0})
    assert [step.env for step in steps] == [0, 1, 2]
    assert all(step.fresh for step in steps)
    for count in ("has connected: 3 of 3.", "has joined: 1 engine now.", "has joined: 3 engines now."):
        assert count in caplog.text


def test_an_engine_is_introduced_once_it_was_accepted(manage, source, caplog):
    manager = manage()
    answer(manager, manager.reset())
    with caplog.at_level(logging.INFO):
        misfit, guest = FakeEngine(9, spec=ball_spec(5)), FakeEngine(9)
        misfit.take_introduction, guest.take_introduction = lambda: ["To Cubes"], lambda: ["To Balls"]
        source.add(misfit)
        until(manager, lambda step: step.left)
        assert "To Cubes" not in caplog.text
        source.add(guest)
        until(manager, lambda step: step.fresh)
    assert "To Balls" in caplog.text


def test_a_late_environment_joins_with_the_parameters_of_the_run(manage, source):
    manager = manage()
    answer(manager, manager.reset({"mass": 2.0}))
    manager.set_parameters({"mass": 3.0})
    late = source.add()
    (step,) = [step for step in until(manager, lambda step: step.env == 1) if step.env == 1]
    assert step.fresh
    assert late.engine.log[:2] == [{"mass": 3.0}, "reset"]
    assert manager.num_envs == 2
    assert manager.restarts == 0


def test_an_environment_that_leaves_is_reported_and_the_others_go_on(manage, source):
    manager = manage(3)
    steps = manager.reset()
    leaver = next(guest for guest in _guests(manager) if guest.index == 1)
    answer(manager, steps)
    leaver.engine.play = lambda kind, n: HUNG_UP
    seen = until(manager, lambda step: step.left)
    (gone,) = [step for step in seen if step.left]
    assert (gone.env, gone.fresh, dict(gone.steps)) == (1, True, {})
    assert leaver.engine.closed.wait(PATIENCE)
    assert not any(step.fresh for step in seen if step.env != 1), "others lose nothing"
    assert {step.env for step in until(manager, lambda step: step.env == 2)} <= {0, 2}
    with pytest.raises(RuntimeError, match="there is no environment 1"):
        manager.send(1, {})


def _guests(manager: EnvManager) -> list[FakePendingEnv]:
    return [worker.pending_env for worker in manager._workers.values()]


def test_a_free_index_is_given_again_once_the_departure_was_reported(manage, source):
    manager = manage(2)
    steps = manager.reset()
    first = next(guest for guest in _guests(manager) if guest.index == 0)
    first.engine.play = lambda kind, n: HUNG_UP
    answer(manager, steps)
    until(manager, lambda step: step.left)
    newcomer = source.add()
    seen = until(manager, lambda step: step.env == 0)
    assert newcomer.index == 0
    assert next(step for step in seen if step.env == 0).fresh
    assert list(manager._workers) == [0, 1]


def test_when_none_is_left_the_run_waits_for_the_next(manage, source, caplog):
    manager = manage()
    steps = manager.reset()
    _guests(manager)[0].engine.play = lambda kind, n: HUNG_UP
    with caplog.at_level(logging.INFO):
        answer(manager, steps)
        until(manager, lambda step: step.left)
        assert manager.num_envs == 0
        assert manager.wait(0.05) == []
        assert manager.reset() == [], "a reset has nobody to wait for"
        source.add()
        (step,) = manager.wait(PATIENCE)
    assert (step.env, step.fresh) == (0, True)
    assert caplog.text.count("No engine is left: the run waits for the next one at the address.") == 1
    assert "has joined: the run goes on." in caplog.text


def test_limits_of_restarts_do_not_apply_to_environments_that_leave(manage, source):
    manager = manage()
    steps = manager.reset()
    for _ in range(12):
        _guests(manager)[0].engine.play = lambda kind, n: UnityEnvironmentException("it crashed")
        answer(manager, steps)
        until(manager, lambda step: step.left)
        source.add()
        steps = manager.wait(PATIENCE)
    assert values(steps) == {0: (12, 1)}


@pytest.mark.parametrize(
    ("make", "reason", "log"),
    [
        (
            lambda: FakeEngine(9, spec=ball_spec(5)),
            "describe the behavior 'Ball?team=0' differently",
            "Turned away environment 1",
        ),
        (lambda: FakeEngine(float("nan")), "is nan", "Turned away environment 1"),
        (lambda: FakeEngine(3e38), "too large to learn from", "Turned away environment 1"),
        (lambda: with_behavior("Cube"), "nobody trains it", "Turned away environment 1"),
    ],
    ids=["another spec", "values that are not finite", "values too large", "a behavior that nobody trains"],
)
def test_an_environment_that_does_not_fit_is_turned_away_alone(manage, source, caplog, make, reason, log):
    manager = manage()
    answer(manager, manager.reset())
    with caplog.at_level(logging.INFO):
        guest = source.add(make())
        until(manager, lambda step: step.left)
    assert guest.engine.closed.wait(PATIENCE)
    assert guest.in_vain == 1
    assert reason in guest.reason
    assert log in caplog.text
    assert "Environment 1 (guest 1) has joined" not in caplog.text, "that is said after the check"
    assert list(manager._workers) == [0]
    assert dict(manager.behavior_specs) == {BALL: ball_spec()}, "it leaves no trace"


def with_behavior(name: str) -> FakeEngine:
    """An engine with another behavior as well."""
    engine = FakeEngine(9)
    received = engine.receive

    def receive() -> None:
        received()
        engine.behavior_specs = {BALL: ball_spec(), name: ball_spec()}

    engine.receive = receive
    return engine


def test_no_failure_of_a_newcomer_ends_the_run_of_the_others(manage, source, caplog):
    """What it sends is the other side's: a fault that nobody has thought of must not be the run's either."""
    manager = manage()
    steps = manager.reset()
    with caplog.at_level(logging.WARNING):
        source.add(ZeroDivisionError("division by zero"))
        worse = FakeEngine(9)
        worse.receive = lambda: 1 // 0
        source.add(worse)
        while caplog.text.count("Turned away") < 2:
            manager.wait(0.01)
    assert "ZeroDivisionError: division by zero" in caplog.text
    answer(manager, steps)
    assert [step.env for step in manager.wait(PATIENCE) if not step.left] == [0]


def test_an_environment_that_fails_in_the_handshake_is_turned_away_alone(manage, source, caplog):
    manager = manage()
    answer(manager, manager.reset())
    with caplog.at_level(logging.WARNING):
        source.add(UnityEnvironmentException("another version"))
        newcomer = source.add()
        until(manager, lambda step: step.fresh)
        while "Turned away" not in caplog.text:  # each handshake has a thread of its own
            manager.wait(0.01)
    assert "Turned away environment 1 (guest 1): another version" in caplog.text
    assert newcomer.index in (1, 2)


def test_a_newcomer_that_hangs_does_not_delay_a_reset(manage, source):
    manager = manage()
    answer(manager, manager.reset())
    slow = source.add(held=True)
    manager.wait(PATIENCE)
    while slow.index is None:
        manager.wait(0.01)
    assert [step.env for step in manager.reset()] == [0]
    slow.free.set()


def test_an_environment_that_leaves_before_the_run_begins_is_not_counted(source, caplog):
    manager = EnvManager(None, 2, source=source)
    starting = threading.Thread(target=manager.start, daemon=True)
    with caplog.at_level(logging.INFO):
        starting.start()
        first = source.add()
        while "1 of 2" not in caplog.text:
            starting.join(0.01)
        first.engine.finish(HUNG_UP)
        while "has left" not in caplog.text:
            starting.join(0.01)
        source.add()
        source.add()
        starting.join(PATIENCE)
    assert not starting.is_alive()
    assert sorted(values(manager.reset())) == [0, 1]
    manager.close()
    assert source.closed


def test_nothing_is_kept_of_environments_that_come_and_go(manage, source):
    manager = manage()
    steps = manager.reset()
    for _ in range(30):
        _guests(manager)[0].engine.play = lambda kind, n: HUNG_UP
        answer(manager, steps)
        until(manager, lambda step: step.left)
        source.add()
        steps = manager.wait(PATIENCE)

    def keepers():
        return [thread for thread in threading.enumerate() if thread.name.startswith("keeper")]

    assert console_runs.until(lambda: len(keepers()) < 5 and len(manager._admission._closing) < 5)


@pytest.mark.parametrize(
    ("make_env", "options"),
    [(None, {}), (FakeEngine, {"source": FakeSource()}), (None, {"source": FakeSource(), "ordered": True})],
)
def test_options_that_contradict_each_other_are_refused(make_env, options):
    with pytest.raises(ValueError):
        EnvManager(make_env, 1, **options)
