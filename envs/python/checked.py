"""A user's BaseEnv, whose every result is checked before it is passed on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from mlagents_envs.base_env import (
    ActionSpec,
    ActionTuple,
    BaseEnv,
    BehaviorSpec,
    DecisionSteps,
    TerminalSteps,
)
from mlagents_envs.exception import UnityException
from numpy.typing import NDArray

from ..base import BehaviorSteps, EngineStatistics, ObsArray, StatsAggregationMethod, no_steps
from ..errors import EnvContractError
from ..side_channels import Parameters
from ..validation import NO_AGENTS
from .base import InProcessEnvironment
from .calls import check_frame, game_error, one_line, shorten
from .episodes import METHOD, check_declared

_NUMBERS = "biuf"
"""The numeric dtype kinds."""
_INTEGERS = "iu"


def wrap_checked(env: BaseEnv, name: str) -> BaseEnv:
    """The environment itself if its results are known to be checked, else within a CheckedEnvironment.

    `name`: the environment in messages.
    """
    own = isinstance(env, InProcessEnvironment) or hasattr(env, "send_step")
    return env if own else CheckedEnvironment(env, name)


class CheckedEnvironment(InProcessEnvironment):
    """Steps a BaseEnv, and checks that its results match its specifications, in shape and dtype.

    The arrays that it returns, and those that it gets, are copied: it may reuse the former and change the
    latter.
    """

    def __init__(self, env: BaseEnv, name: str) -> None:
        """Wrap `env`; closing this closes it. `name`: the environment in messages."""
        super().__init__()
        self.env = env
        self.name = name
        self._specs: dict[str, BehaviorSpec] = {}
        self._listed: list[str] = []
        """The behaviors that the environment named last."""
        self._parameters = Parameters()
        self._parameters_due = False
        """Whether the environment gets values before its next reset or step."""

    @property
    def behavior_specs(self) -> Mapping[str, BehaviorSpec]:
        """The environment's behaviors as of its last step."""
        return self._specs

    def reset(self) -> None:
        """Restart all episodes.

        Raises:
            EnvContractError: The environment raises an exception, or returns an invalid result.
        """
        self._advance("reset")

    def step(self) -> None:
        """Step all agents; those without actions get zeros. Raises as `reset`."""
        if not self._steps:
            self.reset()
            return
        for name in self._listed:
            decisions, _ = self._steps[name]
            given = self._actions.get(name) or self._specs[name].action_spec.empty_action(len(decisions))
            self._call("set_actions", name, ActionTuple(given.continuous.copy(), given.discrete.copy()))
        self._advance("step")

    def check_parameters(self, names: Collection[str]) -> None:
        """Refuse environment parameters that the environment does not take.

        Raises:
            EnvContractError: It does not take them.
        """
        if names and not callable(getattr(self.env, METHOD, None)):
            raise EnvContractError(
                f"{self.name} takes no environment parameters ({', '.join(names)}): "
                f"{type(self.env).__name__} has no method {METHOD}. Give it one, which gets a dict of "
                "numbers by their names, or remove environment_parameters."
            )
        check_declared(self.env, names)

    def set_parameters(self, parameters: Mapping[str, object]) -> None:
        """Set environment parameters, which the environment gets before its next reset or step.

        Args:
            parameters: Numbers, or samplers, as of `UnityEnvironment.set_parameters`. Of a sampler a value
                is drawn for every reset, and whenever an episode has ended.

        Raises:
            EnvContractError: As `check_parameters`.
        """
        self.check_parameters(parameters)
        self._parameters.take(parameters)
        self._parameters_due = bool(parameters)

    def lost_lives(self, behavior_name: str) -> NDArray[np.int32]:
        """[n] Agents that lost a life, if the environment supports lives."""
        if getattr(self.env, "lost_lives", None) is None:
            return NO_AGENTS
        lost = self._call("lost_lives", behavior_name)
        what = f"{self.name}: what lost_lives({behavior_name!r}) returned"
        return _array(what, lost, (_count(what, lost),), np.int32)

    def statistics(self) -> EngineStatistics:
        """The environment's statistics, if it has any."""
        if getattr(self.env, "statistics", None) is None:
            return {}
        found: EngineStatistics = self._call("statistics")
        if not isinstance(found, Mapping) or not all(map(_is_statistic, found.values())):
            raise EnvContractError(
                f"{self.name}: statistics returned {shorten(found)}; expected a dict of lists of pairs: a "
                "number and a StatsAggregationMethod."
            )
        return found

    def draw(self) -> NDArray[np.uint8]:
        """A frame [height, width, 3].

        Raises:
            NotImplementedError: The environment does not draw.
            EnvContractError: It raises an exception, or returns something else.
        """
        if getattr(self.env, "draw", None) is None:
            raise NotImplementedError(f"{type(self.env).__name__} does not draw itself.")
        return check_frame(self._call("draw"), self.name, "draw")

    def close(self) -> None:
        """Close the environment. Raises as `reset`."""
        self._call("close")

    def _advance(self, method: str) -> None:
        if self._parameters_due or (self._parameters.sampled and method == "reset"):
            self._parameters_due = False
            self._call(METHOD, {name: self._parameters.get(name, 0.0) for name in self._parameters.values})
        self._call(method)
        self._actions.clear()
        specs = self._call_specs()
        self._listed = list(specs)
        for name in self._specs.keys() - specs.keys():  # as if its agents were not in the message
            self._steps[name] = no_steps(self._specs[name])
        for name, spec in specs.items():
            known = self._specs.get(name)
            if known is None:
                known = self._specs[name] = self._spec(name, spec)
            elif known is not spec and known != spec:
                raise EnvContractError(
                    f"{self.name}: the spec of the behavior {name!r} has changed from {known} to {spec}; "
                    "expected it to stay as it was."
                )
            self._steps[name] = steps = self._read(name, known, self._call("get_steps", name))
            self._parameters_due |= bool(self._parameters.sampled) and len(steps[1]) > 0

    def _call(self, method: str, *arguments: Any) -> Any:
        with self._named(method):
            return getattr(self.env, method)(*arguments)

    @contextmanager
    def _named(self, what: str) -> Iterator[None]:
        """While open, convert the environment's exceptions to errors that name it and the method."""
        try:
            yield
        except UnityException:  # an engine's failure, or an error that names the environment already
            raise
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # it may raise anything
            raise game_error(self.name, what, error) from error

    def _call_specs(self) -> Mapping[str, BehaviorSpec]:
        with self._named("behavior_specs"):
            specs = self.env.behavior_specs
        if not isinstance(specs, Mapping) or not specs:
            raise EnvContractError(
                f"{self.name}: its behavior_specs are {shorten(specs)} after a reset or step; expected a "
                "BehaviorSpec by each behavior's name."
            )
        return specs

    def _spec(self, behavior: str, spec: Any) -> BehaviorSpec:
        """Check a behavior's specification."""
        good = isinstance(spec, BehaviorSpec) and isinstance(spec.action_spec, ActionSpec)
        if not good or not spec.observation_specs:
            raise EnvContractError(
                f"{self.name}: the spec of the behavior {behavior!r} is {shorten(spec)}; expected a "
                "BehaviorSpec of at least one ObservationSpec and an ActionSpec."
            )
        return spec

    def _read(self, behavior: str, spec: BehaviorSpec, steps: Any) -> BehaviorSteps:
        where = f"{self.name}: behavior {behavior!r}"
        kinds = (DecisionSteps, TerminalSteps)
        if not isinstance(steps, tuple) or [type(each) for each in steps] != list(kinds):
            raise EnvContractError(
                f"{where}: get_steps returned {shorten(steps)}; expected DecisionSteps and TerminalSteps."
            )
        return _decisions(f"{where}, DecisionSteps", spec, steps[0]), _terminals(
            f"{where}, TerminalSteps", spec, steps[1]
        )


def _is_statistic(values: Any) -> bool:
    """Whether these are pairs of a number and how numbers are summarized."""
    return isinstance(values, Sequence) and all(
        isinstance(each, tuple) and len(each) == 2 and isinstance(each[1], StatsAggregationMethod)
        for each in values
    )


def _count(what: str, ids: Any) -> int:
    """The number of agents whose ids these are.

    Raises:
        EnvContractError: They are no ids, or one agent's is there twice.
    """
    try:
        count, different = len(ids), len(set(np.asarray(ids).tolist()))
    except TypeError as error:
        raise EnvContractError(f"{what} is {shorten(ids)}; expected an array of agents' ids.") from error
    if different < count:
        raise EnvContractError(
            f"{what} is {shorten(ids)}, which has an agent twice; expected a different id for each agent of "
            "the behavior, also where there are several areas."
        )
    return count


def _decisions(where: str, spec: BehaviorSpec, steps: DecisionSteps) -> DecisionSteps:
    count = _count(f"{where}: agent_id", steps.agent_id)
    branches = spec.action_spec.discrete_branches
    mask = steps.action_mask
    if mask is not None:
        if not isinstance(mask, (list, tuple)) or len(mask) != len(branches):
            raise EnvContractError(
                f"{where}: action_mask is {shorten(mask)}; expected None, or a list of {len(branches)} "
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
    count = _count(f"{where}: agent_id", steps.agent_id)
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
        found = f"{len(given)} arrays" if isinstance(given, (list, tuple)) else shorten(given)
        raise EnvContractError(
            f"{where}: obs is {found}; expected a list of {len(specs)}: "
            f"{', '.join(each.name for each in specs)}."
        )
    arrays = []
    for sensor, each in zip(specs, given):
        # Images of bytes stay bytes; a trainer's networks accept them.
        is_byte_image = len(sensor.shape) == 3 and getattr(each, "dtype", None) == np.uint8
        kind = np.uint8 if is_byte_image else np.float32
        arrays.append(_array(f"{where}: obs of {sensor.name!r}", each, (count, *sensor.shape), kind))
    return arrays


def _array(what: str, given: Any, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Check the shape of an array of numbers, and copy it with this dtype.

    Raises:
        EnvContractError: It has another shape, or is not numeric.
    """
    try:
        values = np.asarray(given)
    except ValueError as error:  # lists of unequal lengths
        raise EnvContractError(f"{what} has parts of unequal lengths; expected the shape {shape}.") from error
    except Exception as error:  # such as a tensor on a GPU, or one with a gradient
        raise EnvContractError(
            f"{what} is a {type(given).__name__} that NumPy cannot read: {one_line(error)}"
        ) from error
    if values.shape != shape:
        raise EnvContractError(f"{what} has the shape {values.shape}; expected {shape}.")
    allowed = _INTEGERS if dtype is np.int32 else _NUMBERS
    if values.dtype.kind not in allowed and values.size:
        raise EnvContractError(f"{what} holds {values.dtype}; expected {np.dtype(dtype)}.")
    return np.array(values, dtype, order="C")
