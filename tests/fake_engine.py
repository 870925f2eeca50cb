"""Environments without an engine that answer, hang or fail when a test wants them to."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from lanista.envs.base import Decision
from mlagents_envs.base_env import ActionSpec, ActionTuple, BehaviorSpec, DecisionSteps, TerminalSteps
from mlagents_envs.exception import UnityEnvironmentException, UnityTimeOutException
from specs import sensor

BALL = "Ball?team=0"


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


def ball_spec(size: int = 2, actions: int = 1) -> BehaviorSpec:
    return BehaviorSpec([sensor((size,), "Sensor")], ActionSpec(actions, ()))


def ball_steps(agent_id: int, *values: float, reward: float = 0.0) -> tuple[DecisionSteps, TerminalSteps]:
    """One agent that waits for a decision."""
    one = np.ones(1, dtype=np.float32)
    ids = np.array([agent_id], dtype=np.int32)
    obs = [np.array([values], dtype=np.float32)]
    decisions = DecisionSteps(obs, one * reward, ids, None, np.zeros(1, np.int32), one * 0)
    return decisions, TerminalSteps.empty(ball_spec(len(values)))


def value(step: Any) -> tuple[float, ...]:
    """What the agent of a manager's step observes: (life, answers so far)."""
    return tuple(step.steps[BALL][0].obs[0][0].tolist())


def decide(value: float) -> Decision:
    """A decision for one agent; what the engine gets is a third of what was sampled."""
    one = np.ones((1, 1), dtype=np.float32)
    return Decision(
        agent_id=np.array([7], dtype=np.int32),
        action=ActionTuple(continuous=one * value),
        env_action=ActionTuple(continuous=one * value / 3),
        log_probs=one,
        entropy=one[0],
    )


class FakeEngine:
    """An AsyncEnv with one agent, whose observation is (life, answers so far in this life).

    Args:
        life: Told apart by it.
        play: What becomes of the n-th request ("reset" or "step"): True answers at once, False never,
            an exception is what `receive` raises.
    """

    def __init__(
        self,
        life: int = 0,
        play: Callable[[str, int], bool | Exception] = lambda kind, n: True,
        spec: BehaviorSpec | None = None,
    ) -> None:
        self.life = life
        self.play = play
        self.spec = spec or ball_spec()
        self.on_arrival = None
        self.timeout_wait = 60.0
        self.behavior_specs: dict[str, BehaviorSpec] = {}
        self.log: list[object] = []
        self.actions: dict[str, ActionTuple] = {}
        self.values: tuple[float, ...] | None = None
        self.announces = True
        self.closed = threading.Event()
        self._requests = 0
        self._answers = 0
        self._outcome: bool | Exception = False

    def set_actions(self, behavior_name: str, action: ActionTuple) -> None:
        self.actions[behavior_name] = action

    def send_reset(self) -> None:
        self._send("reset")

    def send_step(self) -> None:
        self._send("step")

    def _send(self, kind: str) -> None:
        assert not self.closed.is_set(), "a closed environment was sent something"
        self.log.append(kind)
        self.finish(self.play(kind, self._requests))
        self._requests += 1

    def finish(self, outcome: bool | Exception) -> None:
        """Answer, or fail, now."""
        self._outcome = outcome
        if outcome is not False and self.announces and self.on_arrival is not None:
            self.on_arrival()

    def watch(self, selector: object, token: object) -> None:
        """No sockets: `on_arrival` tells everything."""

    def poll(self) -> bool:
        return self._outcome is not False

    def receive(self) -> None:
        outcome, self._outcome = self._outcome, False
        if isinstance(outcome, Exception):
            raise outcome
        assert outcome, "receive() would have waited"
        self._answers += 1
        self.behavior_specs = {BALL: self.spec}

    def get_steps(self, behavior_name: str) -> tuple[DecisionSteps, TerminalSteps]:
        return ball_steps(7, *(self.values or (self.life, self._answers)))

    def lost_lives(self, behavior_name: str) -> np.ndarray:
        return np.zeros(0, np.int32)

    def statistics(self) -> dict:
        return {}

    def set_parameters(self, parameters: dict) -> None:
        self.log.append(dict(parameters))

    def timed_out(self) -> Exception:
        self.log.append("overdue")
        return UnityTimeOutException("The engine is silent")

    def close(self, timeout: float | None = None) -> None:
        if self.closed.is_set():
            raise UnityEnvironmentException("No Unity environment is loaded.")
        self.closed.set()


class Factory:
    """A `make_env` that remembers what it made.

    Args:
        play: (environment, life, kind, n) to what becomes of the request; see FakeEngine.
        fail: (environment, life) to what the launch raises, or None.
    """

    def __init__(
        self,
        play: Callable[[int, int, str, int], bool | Exception] = lambda env, life, kind, n: True,
        fail: Callable[[int, int], BaseException | None] = lambda env, life: None,
    ) -> None:
        self.play = play
        self.fail = fail
        self.made: dict[int, list[FakeEngine]] = {}
        self._lives: dict[int, int] = {}

    def __call__(self, env: int) -> FakeEngine:
        life = self._lives[env] = self._lives.get(env, -1) + 1
        error = self.fail(env, life)
        if error is not None:
            raise error
        engine = FakeEngine(life, lambda kind, n: self.play(env, life, kind, n))
        self.made.setdefault(env, []).append(engine)
        return engine

    def newest(self, env: int) -> FakeEngine:
        return self.made[env][-1]
