"""Environments that are told what to do and answer later, which is how a manager drives many at once."""

import math
from collections.abc import Callable, Mapping
from selectors import BaseSelector
from typing import Protocol

import numpy as np
from mlagents_envs.base_env import ActionTuple, BaseEnv, BehaviorSpec
from mlagents_envs.exception import UnityTimeOutException
from numpy.typing import NDArray

from .finite import NO_AGENTS
from .steps import BehaviorSteps, EngineStatistics

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
