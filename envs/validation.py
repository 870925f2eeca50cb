"""Checks of what engines send and receive: numbers that are not finite, and the shapes of actions."""

import logging
import math
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

import numpy as np
from mlagents_envs.base_env import ActionSpec, ActionTuple, BehaviorSpec, DecisionSteps, TerminalSteps
from mlagents_envs.exception import UnityActionException, UnityObservationException
from numpy.typing import NDArray

from .base import BehaviorSteps, ObsArray

logger = logging.getLogger(__name__)

Steps = TypeVar("Steps", DecisionSteps, TerminalSteps)

_BYTES = np.dtype(np.uint8)
_FEW = 8192
"""More numbers may be multiplied by threads of the BLAS library, which here cost more than they bring."""
_LARGEST = float(np.sqrt(np.finfo(np.float32).max))
"""The square of a greater number is infinite in float32."""
NO_AGENTS: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
NO_AGENTS.flags.writeable = False


class NonFinitePolicy(str, Enum):
    """What to do about a NaN or an infinity in an observation, a reward or a group reward."""

    STOP = "stop"
    """Raise `NonFiniteError`."""
    DROP = "drop"
    """Replace it by zero, and drop the agent's unfinished trajectory."""
    ZERO = "zero"
    """Replace it by zero."""


class NonFiniteError(UnityObservationException, RuntimeError):  # type: ignore[misc]
    """A number from an engine is NaN or infinite. Also a RuntimeError, which ML-Agents raises."""


@dataclass(frozen=True, slots=True)
class _Fault:
    """The first non-finite number of one array."""

    source: str
    """Such as `observation 'VectorSensor_size8'`, or `reward`."""
    rows: NDArray[np.intp]
    """[k] the agents' rows with such numbers, ascending."""
    place: tuple[int, ...]
    """The first number's index within its agent's observation; empty for a reward."""
    value: float


def check_finite(
    steps: BehaviorSteps,
    spec: BehaviorSpec,
    environment: str,
    behavior: str,
    policy: NonFinitePolicy,
    warned: set[tuple[str, str]] | None = None,
    *,
    squares: bool = False,
) -> tuple[BehaviorSteps, NDArray[np.int32]]:
    """Check that all numbers that one behavior's agents sent are finite.

    Costs one pass over each array while everything is finite. Arrays are never changed in place: the
    returned steps hold a copy of those that are corrected.

    Args:
        steps: The behavior's DecisionSteps and TerminalSteps.
        spec: The behavior's; names the sensors.
        environment: The environment's name in messages, such as `environment 3`.
        behavior: The behavior's name.
        policy: What to do about such a number.
        warned: (behavior, source) pairs that have been warned about; a source in it is not warned about
            again, one that is not is added. Without it every call warns.
        squares: Treat numbers whose squares are infinite in float32 as infinite too: they would end the run
            later, where nothing tells whose they are.

    Returns:
        The steps, and the ids [k] of the agents whose unfinished trajectories are void (DROP only).

    Raises:
        NonFiniteError: With STOP; names environment, behavior, sensor, agent and value.
    """
    decisions, terminals = steps
    void: list[NDArray[np.int32]] = []
    for batch, kind in ((decisions, "decision"), (terminals, "terminal")):
        if len(batch.agent_id) == 0:
            continue
        finite = all_finite(batch.reward, squares) and all_finite(batch.group_reward, squares)
        for obs in batch.obs:
            finite = finite and all_finite(obs, squares)
        if finite:
            continue
        for fault in _faults(batch, spec, squares):
            message = _describe(fault, batch, kind, environment, behavior)
            if policy is NonFinitePolicy.STOP:
                raise NonFiniteError(
                    f"{message}. Correct what the agent collects or how it is rewarded, or let such numbers "
                    "pass as zeros: env_settings.non_finite 'zero', or 'drop' to lose that episode as well."
                )
            _warn_once(message, (behavior, fault.source), policy, warned)
            faulty = batch.agent_id[fault.rows]
            # Of an id that ends and starts again in this step, the episode that has ended is sound.
            void.append(faulty if kind == "terminal" else np.setdiff1d(faulty, terminals.agent_id))
        if kind == "decision":
            decisions = _finite(decisions, squares)
        else:
            terminals = _finite(terminals, squares)
    if not void:
        return steps, NO_AGENTS
    ids = np.unique(np.concatenate(void)).astype(np.int32) if policy is NonFinitePolicy.DROP else NO_AGENTS
    return (decisions, terminals), ids


def all_finite(numbers: ObsArray, squares: bool = False) -> bool:
    """Whether there is no NaN and no infinity; a third of `isfinite`'s time where there are few numbers.

    With `squares`: nor any among the numbers' squares.
    """
    if numbers.dtype == _BYTES:
        return True
    # NaN and infinities show in the sum of squares, as do numbers so large that theirs overflow.
    if numbers.size <= _FEW and math.isfinite(np.vdot(numbers, numbers)):
        return True
    return bool(_are_finite(numbers, squares).all())


def _are_finite(numbers: ObsArray, squares: bool) -> NDArray[np.bool_]:
    return np.abs(numbers) <= _LARGEST if squares else np.isfinite(numbers)


def _faults(batch: DecisionSteps | TerminalSteps, spec: BehaviorSpec, squares: bool) -> Iterator[_Fault]:
    for index, obs in enumerate(batch.obs):
        if not all_finite(obs, squares):
            yield _fault(f"observation {spec.observation_specs[index].name!r}", obs, squares)
    if not all_finite(batch.reward, squares):
        yield _fault("reward", batch.reward, squares)
    if not all_finite(batch.group_reward, squares):
        yield _fault("group reward", batch.group_reward, squares)


def _fault(source: str, numbers: NDArray[np.float32], squares: bool) -> _Fault:
    bad = np.argwhere(~_are_finite(numbers, squares))
    first = tuple(int(i) for i in bad[0])
    return _Fault(source, np.unique(bad[:, 0]), first[1:], float(numbers[first]))


def _describe(
    fault: _Fault, batch: DecisionSteps | TerminalSteps, kind: str, environment: str, behavior: str
) -> str:
    row = int(fault.rows[0])
    place = f" at index {list(fault.place)}" if fault.place else ""
    size = ", too large to learn from," if math.isfinite(fault.value) else ""
    others = f" (and {len(fault.rows) - 1} other agents)" if len(fault.rows) > 1 else ""
    return (
        f"{environment}, behavior {behavior!r}: the {fault.source} of agent {int(batch.agent_id[row])} "
        f"is {fault.value}{size}{place} in a {kind} step{others}"
    )


def _warn_once(
    message: str, key: tuple[str, str], policy: NonFinitePolicy, warned: set[tuple[str, str]] | None
) -> None:
    if warned is not None:
        if key in warned:
            return
        warned.add(key)
    effect = "the episode so far is dropped" if policy is NonFinitePolicy.DROP else "zero is taken instead"
    logger.warning("%s; %s. This is said once per sensor.", message, effect)


def _zeroed(numbers: ObsArray, squares: bool) -> ObsArray:
    if numbers.dtype == _BYTES:
        return numbers
    return np.where(_are_finite(numbers, squares), numbers, np.float32(0))


def _finite(steps: Steps, squares: bool) -> Steps:
    """A copy with zeros for numbers that are not finite; the caller's arrays stay as they are."""
    finite = copy(steps)
    finite.obs = [_zeroed(obs, squares) for obs in steps.obs]
    finite.reward = _zeroed(steps.reward, squares)
    finite.group_reward = _zeroed(steps.group_reward, squares)
    return finite


def with_action(
    given: ActionTuple | None,
    spec: ActionSpec,
    decisions: DecisionSteps,
    agent_id: int,
    action: ActionTuple,
    behavior: str,
) -> ActionTuple:
    """The actions set so far, with one agent's changed, in new arrays.

    Args:
        given: [n, continuous] and [n, branches]; None for zeros.
        spec: The behavior's.
        decisions: Of the n agents that wait for a decision.
        agent_id: One of them.
        action: [1, continuous] and [1, branches], already checked.
        behavior: Its name, for the message.

    Raises:
        IndexError: The agent does not wait for a decision.
    """
    rows = decisions.agent_id_to_index
    if agent_id not in rows:
        raise IndexError(
            f"agent_id {agent_id} did not request a decision at the previous step; of the behavior "
            f"{behavior} these did: {decisions.agent_id[:20].tolist()}."
        )
    if given is None:
        changed = spec.empty_action(len(decisions))
    else:
        changed = ActionTuple(given.continuous.copy(), given.discrete.copy())
    changed.continuous[rows[agent_id]] = action.continuous
    changed.discrete[rows[agent_id]] = action.discrete
    return changed


def check_shape(spec: BehaviorSpec, action: ActionTuple, agents: int, behavior: str) -> None:
    """Refuse actions of another shape than the behavior's, and actions without any part.

    Raises:
        UnityActionException: A shape is wrong, or a part is missing; the message names a kind of actions that
            the behavior has.
    """
    sizes = [
        ("continuous", spec.action_spec.continuous_size),
        ("discrete", spec.action_spec.discrete_size),
    ]
    if not spec.action_spec.continuous_size:
        sizes.reverse()
    for kind, size in sizes:
        given = getattr(action, kind)
        shape = None if given is None else given.shape
        if shape != (agents, size):
            rows = shape is not None and shape[:1] != (agents,)
            raise UnityActionException(
                f"The behavior {behavior} needs a {kind} input of dimension {(agents, size)} for "
                f"(<number of agents>, <action size>) but received input of dimension {shape}"
                + (f": give a row for each agent that is to act, {agents} in all." if rows else "")
            )
