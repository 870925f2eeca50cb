"""The interfaces through which a manager drives environments, and admits those that start by themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from selectors import BaseSelector
from typing import Protocol

import numpy as np
from mlagents_envs.base_env import ActionTuple, BaseEnv, BehaviorSpec
from mlagents_envs.exception import UnityTimeOutException
from numpy.typing import NDArray

from ..base import BehaviorId, BehaviorSteps, EngineStatistics
from ..engines.terms import terms_of
from ..python.call_watch import WATCH
from ..validation import NO_AGENTS

Parameters = Mapping[str, object]
"""Environment parameters for `set_parameters`: plain floats, or samplers that the environment knows."""


class AsyncEnv(Protocol):
    """A BaseEnv whose step and reset are each split in two: send now, receive when the answer is ready.

    All methods are called from one thread at a time.
    """

    on_arrival: Callable[[], None] | None
    """Called, from any thread and at any time, when an answer has arrived or the engine has gone, unless a
    socket registered by `watch` reports it."""
    timeout_wait: float
    """Seconds that the engine has for each answer."""

    @property
    def behavior_specs(self) -> Mapping[str, BehaviorSpec]:
        """The behaviors seen so far."""

    def set_actions(self, behavior_name: str, action: ActionTuple) -> None:
        """Set what the agents of the last DecisionSteps do; row for row."""

    def send_step(self) -> None:
        """Answer the engine with the actions that were set, zeros where none were; return at once."""

    def send_reset(self) -> None:
        """Answer the engine with a reset; return at once."""

    def watch(self, selector: BaseSelector | None, token: object) -> None:
        """Register the sockets that are readable when `poll` should be called, now and whenever they change.

        Args:
            selector: Where; None unregisters them.
            token: The `data` of the selector's keys.
        """

    def poll(self) -> bool:
        """Whether `receive` would return or raise without waiting: an answer is there, or the engine gone.

        Reads what the sockets have, so that they are not readable any more.
        """

    def receive(self) -> None:
        """Process the answer; raises what kept the engine from answering."""

    def get_steps(self, behavior_name: str) -> BehaviorSteps:
        """One behavior's agents in the last answer."""

    def lost_lives(self, behavior_name: str) -> NDArray[np.int32]:
        """[n] which agents of the last answer's decision steps lost a life; see `EnvironmentStep`."""

    def statistics(self) -> EngineStatistics:
        """What the engine's own code has reported since the last call."""

    def set_parameters(self, parameters: Parameters) -> None:
        """Set environment parameters; they arrive with the next step or reset."""

    def timed_out(self) -> Exception:
        """The answer has not come within `timeout_wait`: the engine gets no time to end by itself.

        Returns:
            What to raise or report, with the cause as far as it can be known.
        """

    def close(self, timeout: float | None = None) -> None:
        """End the environment, which has `timeout` seconds for it, with all its resources."""


def as_async_env(env: BaseEnv) -> AsyncEnv:
    """The environment itself if it is an AsyncEnv, else an adapter that steps it in the caller's thread."""
    return env if hasattr(env, "send_step") else SyncAdapter(env)


class SyncAdapter:
    """Makes any BaseEnv an AsyncEnv: it is stepped in the caller's thread when its answer is received."""

    def __init__(self, env: BaseEnv) -> None:
        """Take ownership of `env`: closing this closes it."""
        self.env = env
        self.terms = terms_of(env)
        self.on_arrival: Callable[[], None] | None = None
        self.timeout_wait = math.inf
        self._name = getattr(env, "name", "") or type(env).__name__
        self._pending: tuple[Callable[[], None], str] | None = None
        """What is wanted, and its name."""
        self._acted: set[str] = set()
        self._lost_lives: Callable[[str], NDArray[np.int32]] | None = getattr(env, "lost_lives", None)

    @property
    def behavior_specs(self) -> Mapping[str, BehaviorSpec]:
        """The environment's."""
        return self.env.behavior_specs  # type: ignore[no-any-return]

    def set_actions(self, behavior_name: str, action: ActionTuple) -> None:
        """Pass the actions on."""
        self.env.set_actions(behavior_name, action)
        self._acted.add(behavior_name)

    def send_step(self) -> None:
        """Note that a step is wanted; unset actions are zeros, which not every BaseEnv ensures."""
        for name, spec in self.env.behavior_specs.items():
            if name not in self._acted:
                waiting = len(self.env.get_steps(name)[0])
                self.env.set_actions(name, spec.action_spec.empty_action(waiting))
        self._start(self.env.step, "step")

    def send_reset(self) -> None:
        """Note that a reset is wanted."""
        self._start(self.env.reset, "reset")

    def watch(self, selector: BaseSelector | None, token: object) -> None:
        """There are no sockets; `on_arrival` announces everything."""

    def poll(self) -> bool:
        """Whether a step or a reset is wanted."""
        return self._pending is not None

    def receive(self) -> None:
        """Do the step or the reset."""
        if self._pending is None:
            raise RuntimeError("receive() without send_step() or send_reset() before it")
        pending, self._pending = self._pending, None
        WATCH.call(*pending)

    def get_steps(self, behavior_name: str) -> BehaviorSteps:
        """The environment's."""
        return self.env.get_steps(behavior_name)  # type: ignore[no-any-return]

    def lost_lives(self, behavior_name: str) -> NDArray[np.int32]:
        """Those of an environment that knows of lives."""
        return NO_AGENTS if self._lost_lives is None else self._lost_lives(behavior_name)

    def timed_out(self) -> Exception:
        """Not called by a manager: what runs in the caller's thread is never late."""
        return UnityTimeOutException(f"{type(self.env).__name__} did not answer in time")  # type: ignore[no-any-return]

    def close(self, timeout: float | None = None) -> None:
        """Close the environment, however long it takes."""
        self.env.close()

    def statistics(self) -> EngineStatistics:
        """What the environment reports, where it can."""
        report = getattr(self.env, "statistics", None)
        return report() if report is not None else {}

    def set_parameters(self, parameters: Parameters) -> None:
        """Pass environment parameters on to an environment that accepts them."""
        if not parameters:
            return
        setter = getattr(self.env, "set_parameters", None)
        if setter is None:
            raise TypeError(
                f"{type(self.env).__name__} has no method set_parameters, so that these environment "
                f"parameters cannot be set: {sorted(parameters)}"
            )
        setter(parameters)

    def _start(self, pending: Callable[[], None], name: str) -> None:
        self._pending = pending, f"{name} of {self._name}"
        self._acted.clear()
        if self.on_arrival is not None:
            self.on_arrival()


class PendingEnv(Protocol):
    """An environment that runs already and wants to take part."""

    @property
    def where(self) -> str:
        """Where it is, for messages."""

    def make(self, index: int) -> BaseEnv:
        """The environment, with this index; called once, from another thread. It may block, and raise what
        keeps the environment from taking part.
        """

    def close_with_reason(self, reason: str) -> None:
        """The environment is about to be closed; it is sent the reason."""

    def on_rejected(self) -> None:
        """It has left, or is turned away, before it took part: what was done for it was in vain."""


class EnvSource(Protocol):
    """Where environments come from that start by themselves. Called from the manager's thread alone."""

    @property
    def where(self) -> str:
        """Where environments connect, for messages."""

    def open(self, announce: Callable[[], None]) -> None:
        """Admit environments from now on. `announce` is called, from any thread, when `next` has one."""

    def next(self) -> PendingEnv | None:
        """The environment that has waited longest to be admitted; None without any."""

    def refusal(self, behavior: BehaviorId, spec: BehaviorSpec, among_others: bool) -> str | None:
        """Why an environment that shows this new behavior cannot take part; None if it can.

        `among_others`: whether others take part already.
        """

    def close(self) -> None:
        """Admit no more environments, and turn away those that wait."""
