"""Environments that are told what to do and answer later, which is how a manager drives many at once.

Where environments come from that start by themselves, as a manager sees it.
"""

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
from ..validation import NO_AGENTS

Parameters = Mapping[str, object]
"""Environment parameters for `set_parameters`: plain floats, or samplers that the environment knows."""


class PipelinedEnv(Protocol):
    """A BaseEnv whose step and reset are each split in two: send now, receive when it is ready.

    All methods are called from one thread at a time.
    """

    on_arrival: Callable[[], None] | None
    """Called, from any thread and at any time, when an answer has arrived or the engine has gone, unless a
    socket says so that `watch` has shown."""
    timeout_wait: float
    """Seconds that the engine has for each answer."""

    @property
    def behavior_specs(self) -> Mapping[str, BehaviorSpec]:
        """The behaviours seen so far."""

    def set_actions(self, behavior_name: str, action: ActionTuple) -> None:
        """Set what the agents of the last DecisionSteps do; row for row."""

    def send_step(self) -> None:
        """Answer the engine with the actions that were set, zeros where none were; return at once."""

    def send_reset(self) -> None:
        """Answer the engine with a reset; return at once."""

    def watch(self, selector: BaseSelector | None, token: object) -> None:
        """Register the sockets that have something when `ready` is to be asked, now and whenever they change.

        Args:
            selector: Where; None takes them out again.
            token: The `data` of the selector's keys.
        """

    def ready(self) -> bool:
        """Whether `receive` would return or raise without waiting: an answer is there, or the engine gone.

        Takes in what the sockets have, so that they have nothing more.
        """

    def receive(self) -> None:
        """Take the answer in; raises what kept the engine from answering."""

    def get_steps(self, behavior_name: str) -> BehaviorSteps:
        """What the last answer said of one behaviour's agents."""

    def lost_lives(self, behavior_name: str) -> NDArray[np.int32]:
        """[n] which agents of the last answer's decision steps lost a life; see `EnvironmentStep`."""

    def statistics(self) -> EngineStatistics:
        """What the engine's own code has reported since the last call."""

    def set_parameters(self, parameters: Parameters) -> None:
        """Set environment parameters; they arrive with the next step or reset."""

    def overdue(self) -> Exception:
        """The answer has not come within `timeout_wait`: the engine gets no time to end by itself.

        Returns:
            What to raise or report, telling why as far as can be known.
        """

    def close(self, timeout: float | None = None) -> None:
        """End the environment, which has `timeout` seconds for it; nothing of it is left behind."""


def pipelined(env: BaseEnv) -> PipelinedEnv:
    """The environment itself if it is a PipelinedEnv, else one that steps it in place."""
    return env if hasattr(env, "send_step") else InPlace(env)


class InPlace:
    """Drives any BaseEnv as a PipelinedEnv: steps it in the caller's thread when its answer is taken."""

    def __init__(self, env: BaseEnv) -> None:
        """Take `env` over; closing this closes it."""
        self.env = env
        self.on_arrival: Callable[[], None] | None = None
        self.timeout_wait = math.inf
        self._pending: Callable[[], None] | None = None
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
        """Note that a step is wanted. Zeros are set here where nothing was: not every BaseEnv does it."""
        for name, spec in self.env.behavior_specs.items():
            if name not in self._acted:
                waiting = len(self.env.get_steps(name)[0])
                self.env.set_actions(name, spec.action_spec.empty_action(waiting))
        self._begin(self.env.step)

    def send_reset(self) -> None:
        """Note that a reset is wanted."""
        self._begin(self.env.reset)

    def watch(self, selector: BaseSelector | None, token: object) -> None:
        """There are no sockets; `on_arrival` tells everything."""

    def ready(self) -> bool:
        """Whether a step or a reset is wanted."""
        return self._pending is not None

    def receive(self) -> None:
        """Do the step or the reset."""
        if self._pending is None:
            raise RuntimeError("receive() without send_step() or send_reset() before it")
        pending, self._pending = self._pending, None
        pending()

    def get_steps(self, behavior_name: str) -> BehaviorSteps:
        """The environment's."""
        return self.env.get_steps(behavior_name)  # type: ignore[no-any-return]

    def lost_lives(self, behavior_name: str) -> NDArray[np.int32]:
        """Those of an environment that knows of lives."""
        return NO_AGENTS if self._lost_lives is None else self._lost_lives(behavior_name)

    def overdue(self) -> Exception:
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
        """Pass environment parameters on to an environment that takes them."""
        if not parameters:
            return
        take = getattr(self.env, "set_parameters", None)
        if take is None:
            raise TypeError(
                f"{type(self.env).__name__} has no method set_parameters, so that these environment "
                f"parameters cannot be set: {sorted(parameters)}"
            )
        take(parameters)

    def _begin(self, pending: Callable[[], None]) -> None:
        self._pending = pending
        self._acted.clear()
        if self.on_arrival is not None:
            self.on_arrival()


class Newcomer(Protocol):
    """An environment that runs already and wants to take part."""

    @property
    def where(self) -> str:
        """Where it is, for messages."""

    def make(self, index: int) -> BaseEnv:
        """The environment, as the one of this index; called once, from another thread. It may block, and
        raise what keeps the environment from taking part.
        """

    def part(self, reason: str) -> None:
        """The environment is about to be closed; this is what it is told."""


class Door(Protocol):
    """Lets environments in while a run is under way. All methods are called from the manager's thread."""

    @property
    def where(self) -> str:
        """Where environments come in, for messages."""

    def open(self, announce: Callable[[], None]) -> None:
        """Let them in from now on. `announce` is called, from any thread, when `next` has somebody."""

    def next(self) -> Newcomer | None:
        """Who waits longest to be taken in; None where nobody does."""

    def refusal(self, behavior: BehaviorId, spec: BehaviorSpec, among_others: bool) -> str | None:
        """Why an environment that shows this new behaviour cannot take part; None if it can.

        `among_others`: whether some take part already.
        """

    def close(self) -> None:
        """Let nobody in any more, and send away who waits."""
