"""A BaseEnv that somebody else has written, whose every answer is looked at before it is handed on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from mlagents_envs.base_env import (
    ActionSpec,
    BaseEnv,
    BehaviorSpec,
    DecisionSteps,
    TerminalSteps,
)
from mlagents_envs.exception import UnityException
from numpy.typing import NDArray

from ..base import BehaviorSteps, EngineStatistics, ObsArray
from ..errors import GameFaultError
from ..validation import NO_AGENTS
from .base import InProcessEnvironment
from .calls import raised, shortened

_NUMBERS = "biuf"
"""The kinds of dtypes that are numbers."""
_WHOLE = "iu"


def checked(env: BaseEnv, name: str) -> BaseEnv:
    """The environment itself where Lanista has checked its answers already, else within a CheckedEnvironment.

    `name`: how messages call it.
    """
    own = isinstance(env, InProcessEnvironment) or hasattr(env, "send_step")
    return env if own else CheckedEnvironment(env, name)


class CheckedEnvironment(InProcessEnvironment):
    """Steps a BaseEnv, and hands on what fits its specifications, as arrays of the dtypes that these have."""

    def __init__(self, env: BaseEnv, name: str) -> None:
        """Take `env` over; closing this closes it. `name`: how messages call it."""
        super().__init__()
        self.env = env
        self.name = name
        self._specs: dict[str, BehaviorSpec] = {}

    @property
    def behavior_specs(self) -> Mapping[str, BehaviorSpec]:
        """The environment's behaviours as of its last answer."""
        return self._specs

    def reset(self) -> None:
        """Begin every episode anew.

        Raises:
            GameFaultError: The environment raises an exception, or gives what does not fit.
        """
        self._advance("reset")

    def step(self) -> None:
        """Let the agents act; those without actions get zeros. Raises as `reset`."""
        if not self._steps:
            self.reset()
            return
        for name, (decisions, _) in self._steps.items():
            given = self._actions.get(name) or self._specs[name].action_spec.empty_action(len(decisions))
            self._call("set_actions", name, given)
        self._advance("step")

    def lost_lives(self, behavior_name: str) -> NDArray[np.int32]:
        """[n] agents that lost a life, of an environment that knows of lives."""
        if getattr(self.env, "lost_lives", None) is None:
            return NO_AGENTS
        return np.asarray(self._call("lost_lives", behavior_name), np.int32)

    def statistics(self) -> EngineStatistics:
        """What the environment reports, where it can."""
        if getattr(self.env, "statistics", None) is None:
            return {}
        told: EngineStatistics = self._call("statistics")
        return told

    def draw(self) -> NDArray[np.uint8]:
        """A picture [height, width, 3]. Raises NotImplementedError where the environment does not draw."""
        if getattr(self.env, "draw", None) is None:
            raise NotImplementedError(f"{type(self.env).__name__} does not draw itself.")
        picture: NDArray[np.uint8] = np.asarray(self._call("draw"), np.uint8)
        return picture

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _advance(self, method: str) -> None:
        self._call(method)
        self._actions.clear()
        for name, spec in self._call_specs().items():
            known = self._specs.get(name)
            if known is None:
                known = self._specs[name] = self._spec(name, spec)
            elif known is not spec and known != spec:
                raise GameFaultError(
                    f"{self.name}: the spec of the behavior {name!r} has changed from {known} to {spec}; "
                    "expected it to stay as it was."
                )
            self._steps[name] = self._read(name, known, self._call("get_steps", name))

    def _call(self, method: str, *arguments: Any) -> Any:
        with self._named(method):
            return getattr(self.env, method)(*arguments)

    @contextmanager
    def _named(self, what: str) -> Iterator[None]:
        """While open, what the environment raises names it, and what was asked of it."""
        try:
            yield
        except UnityException:  # an engine's failure, or a fault that has been named already
            raise
        except (Exception, SystemExit) as error:  # whatever it raises
            raise raised(self.name, what, error) from error

    def _call_specs(self) -> Mapping[str, BehaviorSpec]:
        with self._named("behavior_specs"):
            specs = self.env.behavior_specs
        if not isinstance(specs, Mapping) or not specs:
            raise GameFaultError(
                f"{self.name}: its behavior_specs are {shortened(specs)} after a reset or step; expected a "
                "BehaviorSpec by each behavior's name."
            )
        return specs

    def _spec(self, behavior: str, spec: Any) -> BehaviorSpec:
        """The specification, if it is one."""
        good = isinstance(spec, BehaviorSpec) and isinstance(spec.action_spec, ActionSpec)
        if not good or not spec.observation_specs:
            raise GameFaultError(
                f"{self.name}: the spec of the behavior {behavior!r} is {shortened(spec)}; expected a "
                "BehaviorSpec of at least one ObservationSpec and an ActionSpec."
            )
        return spec

    def _read(self, behavior: str, spec: BehaviorSpec, steps: Any) -> BehaviorSteps:
        where = f"{self.name}: behavior {behavior!r}"
        kinds = (DecisionSteps, TerminalSteps)
        if not isinstance(steps, tuple) or [type(each) for each in steps] != list(kinds):
            raise GameFaultError(
                f"{where}: get_steps gave {shortened(steps)}; expected DecisionSteps and TerminalSteps."
            )
        return _decisions(f"{where}, DecisionSteps", spec, steps[0]), _terminals(
            f"{where}, TerminalSteps", spec, steps[1]
        )


def _decisions(where: str, spec: BehaviorSpec, steps: DecisionSteps) -> DecisionSteps:
    count = len(steps.agent_id)
    branches = spec.action_spec.discrete_branches
    mask = steps.action_mask
    if mask is not None:
        if not isinstance(mask, (list, tuple)) or len(mask) != len(branches):
            raise GameFaultError(
                f"{where}: action_mask is {shortened(mask)}; expected None, or a list of {len(branches)} "
                "arrays, one for each branch."
            )
        mask = [
            _array(f"{where}: action_mask of branch {k}", each, (count, size), np.bool_)
            for k, (each, size) in enumerate(zip(mask, branches))
        ]
    return DecisionSteps(
        _observations(where, spec, steps.obs, count),
        _array(f"{where}: reward", steps.reward, (count,), np.float32),
        _array(f"{where}: agent_id", steps.agent_id, (count,), np.int32),
        mask,
        _array(f"{where}: group_id", steps.group_id, (count,), np.int32),
        _array(f"{where}: group_reward", steps.group_reward, (count,), np.float32),
    )


def _terminals(where: str, spec: BehaviorSpec, steps: TerminalSteps) -> TerminalSteps:
    count = len(steps.agent_id)
    return TerminalSteps(
        _observations(where, spec, steps.obs, count),
        _array(f"{where}: reward", steps.reward, (count,), np.float32),
        _array(f"{where}: interrupted", steps.interrupted, (count,), np.bool_),
        _array(f"{where}: agent_id", steps.agent_id, (count,), np.int32),
        _array(f"{where}: group_id", steps.group_id, (count,), np.int32),
        _array(f"{where}: group_reward", steps.group_reward, (count,), np.float32),
    )


def _observations(where: str, spec: BehaviorSpec, given: Any, count: int) -> list[ObsArray]:
    specs = spec.observation_specs
    if not isinstance(given, (list, tuple)) or len(given) != len(specs):
        found = f"{len(given)} arrays" if isinstance(given, (list, tuple)) else shortened(given)
        raise GameFaultError(
            f"{where}: obs is {found}; expected a list of {len(specs)}: "
            f"{', '.join(each.name for each in specs)}."
        )
    arrays = []
    for sensor, each in zip(specs, given):
        # The bytes of a picture stay bytes; a trainer's networks take them as they are.
        bytes_of_picture = len(sensor.shape) == 3 and getattr(each, "dtype", None) == np.uint8
        kind = np.uint8 if bytes_of_picture else np.float32
        arrays.append(_array(f"{where}: obs of {sensor.name!r}", each, (count, *sensor.shape), kind))
    return arrays


def _array(what: str, given: Any, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Numbers of this shape, in this dtype.

    Raises:
        GameFaultError: They have another shape, or are none.
    """
    try:
        values = np.asarray(given)
    except ValueError as error:  # lists of unequal lengths
        raise GameFaultError(f"{what} is no array ({error}); expected the shape {shape}.") from error
    if values.shape != shape:
        raise GameFaultError(f"{what} has the shape {values.shape}; expected {shape}.")
    allowed = _WHOLE if dtype is np.int32 else _NUMBERS
    if values.dtype.kind not in allowed and values.size:
        raise GameFaultError(f"{what} holds {values.dtype}; expected {np.dtype(dtype)}.")
    return values.astype(dtype, copy=False)
