"""Runs brain files without a trainer: onnxruntime and NumPy, no torch.

Policies that differ by the agents' slots in their group, as COMA's may, act together as one.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
from mlagents_envs.base_env import ActionTuple, BehaviorSpec, DecisionSteps
from numpy.typing import NDArray

from ....agent_processor.groups import GroupSlots, GroupSlotsFullError
from ....envs.base import BehaviorId
from ....envs.images import as_floats
from ....envs.utils.regular_files import read_bytes
from ...utils.text import harmless
from ..agent_states import AgentStates
from .loaded_policy import LoadError, PlayablePolicy, misfits, shape_mismatch
from .loading_errors import NO_FILE, plain, session_options, why_not_loaded, why_too_new

if TYPE_CHECKING:
    from .cost import ModelCost, Shape


class SlotPolicies:
    """A `PlayablePolicy` of one policy per slot.

    Slots are given as in training: a member gets the lowest free one with its first decision in the group.
    When its episode ends the slot stays empty, until no member is left. An agent without a group has slot 0.
    """

    def __init__(self, policies: Sequence[PlayablePolicy]) -> None:
        """Take the `policies` by slot; all read the same observations and have the same actions."""
        self._policies = policies
        self.continuous_size = policies[0].continuous_size
        self.branches = policies[0].branches
        self.memory_size = policies[0].memory_size
        self._groups = GroupSlots("", len(policies))
        self._behaviors: dict[BehaviorId, int] = {}
        """A number for each behavior id, since agents and groups of two may have the same ids."""
        self._agents: dict[tuple[BehaviorId, int], int] = {}
        """A number for each agent that has decided."""
        self._free: list[int] = []
        """The numbers of agents whose episodes have ended."""

    @property
    def has_deterministic(self) -> bool:
        """Whether all policies can choose the likeliest actions."""
        return all(policy.has_deterministic for policy in self._policies)

    @property
    def observations(self) -> Mapping[int, tuple[int | None, ...]]:
        """The observations that the policies read: position -> shape (None: any size)."""
        return self._policies[0].observations

    def act(
        self, steps: DecisionSteps, deterministic: bool = False, behavior_id: BehaviorId = ""
    ) -> ActionTuple:
        """Decide for these agents.

        Raises:
            LoadError: a group has more members than there are slots.
        """
        slots = self._slots(steps, behavior_id)
        actions = ActionTuple(
            np.zeros((len(steps), self.continuous_size), np.float32),
            np.zeros((len(steps), len(self.branches)), np.int32),
        )
        for slot in np.unique(slots).tolist():
            rows = np.flatnonzero(slots == slot)
            decided = self._policies[slot].act(_select(steps, rows), deterministic, behavior_id)
            actions.continuous[rows], actions.discrete[rows] = decided.continuous, decided.discrete
        return actions

    def reset_agents(self, agent_ids: NDArray[np.int32], behavior_id: BehaviorId = "") -> None:
        """Drop the memories of these agents, and let them leave their groups."""
        for policy in self._policies:
            policy.reset_agents(agent_ids, behavior_id)
        known = [
            self._agents.pop(key) for a in agent_ids.tolist() if (key := (behavior_id, a)) in self._agents
        ]
        self._groups.remove(np.array(known, np.intp))
        self._groups.settle()
        self._free += known

    def _slots(self, steps: DecisionSteps, behavior_id: BehaviorId) -> NDArray[np.int64]:
        """The slots [n] of these agents."""
        for agent in steps.agent_id.tolist():
            if (behavior_id, agent) not in self._agents:
                self._agents[behavior_id, agent] = self._free.pop() if self._free else len(self._agents)
        agents = np.array([self._agents[behavior_id, agent] for agent in steps.agent_id.tolist()], np.intp)
        behavior = self._behaviors.setdefault(behavior_id, len(self._behaviors))
        try:
            self._groups.seat(behavior, agents, steps.group_id, agents)
        except GroupSlotsFullError as error:
            raise LoadError(
                f"A group has more than {len(self._policies)} members in one episode, those that have "
                "left it counted; the models are for so many (hyperparameters.max_num_agents)"
            ) from error
        return self._groups.place_of(agents)


def _select(steps: DecisionSteps, rows: NDArray[np.intp]) -> DecisionSteps:
    """The rows of some agents."""
    mask = None if steps.action_mask is None else [branch[rows] for branch in steps.action_mask]
    return DecisionSteps(
        [obs[rows] for obs in steps.obs],
        steps.reward[rows],
        steps.agent_id[rows],
        mask,
        steps.group_id[rows],
        steps.group_reward[rows],
    )


MOST_NUMBERS = 1 << 28
"""The most numbers of an observation, as in what engines send."""
MOST_BYTES = (1 << 31) - 1
"""The most bytes of a model: ONNX's own limit, that of a message of protobuf."""
READABLE_VERSION = 3.0
"""The version of the interface (`version_number`). Version 2, of the 1.x packages, has other inputs."""
_OBSERVATION = re.compile(r"obs_([0-9]+)")
_MOST_SHAPES = 4096
"""Shapes of inputs whose cost is not computed again; the numbers of waiting agents differ."""
_MOST_LETTERS = 1000
"""The most letters of a message, which may hold names of the file."""
_LEGACY = ("vector_observation", "visual_observation_", "epsilon", "prev_action", "sequence_length")


class BrainError(Exception):
    """A brain that cannot be run, or not with these agents; the message names the file and the reason."""


class Brain:
    """A trained policy in an ONNX file: Lanista's, ML-Agents' or Unity's own.

    Recurrent brains keep a memory for each agent; `reset_agents` drops it at the end of the agent's episode.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Load the file and check its inputs and outputs.

        Raises:
            BrainError: it is missing, not an ONNX file, or not a supported brain.
        """
        self.path = Path(path)
        if not self.path.is_file():
            raise self._error("there is no such file")
        if self.path.suffix == ".pt":
            raise self._error("it is a checkpoint; `lanista export` makes a brain of it")
        data = self._read()
        self._cost = self._measure(data)
        self._accepted: set[tuple[Shape, ...]] = set()
        """Shapes of all inputs for which the cost was accepted."""
        self._session, self._inputs, self._outputs = self._load(data)
        self._check_names()
        constants = self._constants()
        try:
            self.version = float(constants["version_number"].ravel()[0])
            if self.version != READABLE_VERSION:
                raise self._error(
                    f"its interface is of version {self.version:g}, and only version 3 is known"
                )
            continuous = constants.get("continuous_action_output_shape", np.zeros(1)).ravel()
            self.continuous_size = int(continuous[0])
            discrete = constants.get("discrete_action_output_shape", np.zeros(0)).ravel()
            self.branches = tuple(int(size) for size in discrete)
            # The input states the size that is used: `memory_size` is 0 in some recurrent files of Unity.
            self.memory_size = int(self._inputs["recurrent_in"][-1]) if "recurrent_in" in self._inputs else 0
        except (IndexError, ValueError, TypeError, OverflowError) as error:
            raise self._error(f"its version, actions and memory are no sizes ({error})") from error
        self._memories = AgentStates(self.memory_size)

    # Description --------------------------------------------------------------------------------------

    @property
    def has_deterministic(self) -> bool:
        """Whether the file also gives the likeliest actions; old ones only give sampled actions."""
        return all(f"deterministic_{name}" in self._outputs for name in self._action_names)

    @property
    def trained_reward(self) -> float | None:
        """The mean reward of the training when the file was exported, if the file tells."""
        try:
            return float(self._session.get_modelmeta().custom_metadata_map["reward"])
        except (KeyError, ValueError, UnicodeDecodeError):
            return None

    @property
    def _action_names(self) -> list[str]:
        """The sampled outputs, continuous first."""
        return [name for name in ("continuous_actions", "discrete_actions") if name in self._outputs]

    @property
    def observations(self) -> dict[int, tuple[int | None, ...]]:
        """The observations that the brain reads: position in the behavior -> shape (None: any size)."""
        return {
            int(match[1]): tuple(size if isinstance(size, int) else None for size in shape[1:])
            for name, shape in self._inputs.items()
            if (match := _OBSERVATION.fullmatch(name))
        }

    def check(self, spec: BehaviorSpec) -> None:
        """Check that the brain fits the behavior.

        Raises:
            BrainError: it reads other observations or has other actions; the message lists all differences.
        """
        problems = misfits(self, spec)
        if problems:
            raise self._error(f"it does not fit the behavior: {'; '.join(problems)}")

    # Acting -------------------------------------------------------------------------------------------

    def act(
        self, steps: DecisionSteps, deterministic: bool = False, behavior_id: BehaviorId = ""
    ) -> ActionTuple:
        """Decide for the n agents of `steps`: [n, continuous] and [n, branches], as the engine takes them.

        Args:
            steps: the agents that wait; with a memory, each agent's is read and replaced.
            deterministic: the likeliest actions instead of sampled ones.
            behavior_id: theirs; agents of two behaviors may have the same ids.

        Raises:
            BrainError: an observation has another shape than the brain reads, or deterministic actions are
                requested and the file has none.
        """
        if deterministic and not self.has_deterministic:
            raise self._error(
                "it has no deterministic outputs (old files do not); play it with sampled actions"
            )
        if len(steps) == 0:
            return self._action(len(steps), [])
        prefix = "deterministic_" if deterministic else ""
        wanted = [f"{prefix}{name}" for name in self._action_names]
        if self.memory_size:
            wanted.append("recurrent_out")
        results = self._run(wanted, self._feeds(steps, behavior_id))
        if self.memory_size:
            memories = results.pop().reshape(len(steps), self.memory_size)
            self._memories.store([(0, behavior_id)], [steps], memories)
        return self._action(len(steps), results)

    def reset_agents(self, agent_ids: NDArray[np.int32], behavior_id: BehaviorId = "") -> None:
        """Drop the memories of agents whose episode has ended."""
        self._memories.drop((0, behavior_id), agent_ids)

    def _feeds(self, steps: DecisionSteps, behavior_id: BehaviorId) -> dict[str, NDArray[Any]]:
        feeds: dict[str, NDArray[Any]] = {}
        for index, shape in self.observations.items():
            problem = shape_mismatch(index, shape, [rows.shape[1:] for rows in steps.obs])
            if problem:
                raise self._error(problem)
            rows = steps.obs[index]
            numbers = as_floats(rows) if len(shape) == 3 else np.asarray(rows, np.float32)
            feeds[f"obs_{index}"] = np.ascontiguousarray(numbers)
        if "action_masks" in self._inputs:
            allowed = np.ones((len(steps), sum(self.branches)), np.float32)
            if steps.action_mask is not None:
                allowed -= np.concatenate(steps.action_mask, axis=1)
            feeds["action_masks"] = allowed
        if self.memory_size:
            feeds["recurrent_in"] = self._memories.read([(0, behavior_id)], [steps]).reshape(
                len(steps), 1, self.memory_size
            )
        return feeds

    def _action(self, agents: int, results: Sequence[NDArray[Any]]) -> ActionTuple:
        by_name = dict(zip(self._action_names, results))
        continuous = by_name.get("continuous_actions", np.zeros((agents, self.continuous_size)))
        discrete = by_name.get("discrete_actions", np.zeros((agents, len(self.branches))))
        return ActionTuple(continuous.astype(np.float32, copy=False), discrete.astype(np.int32))

    # Loading ------------------------------------------------------------------------------------------

    def _read(self) -> bytes:
        """The file's bytes, read once: what is measured is what is run, whatever takes its place."""
        try:
            return read_bytes(self.path, MOST_BYTES)
        except OSError as error:
            raise self._error(f"it cannot be read: {error.strerror or error}") from error

    def _load(self, data: bytes) -> tuple[Any, dict[str, list[Any]], list[str]]:
        """The session, the shapes of its inputs by name, and the names of its outputs."""
        try:
            session = onnxruntime.InferenceSession(
                data, session_options(), providers=["CPUExecutionProvider"], enable_fallback=0
            )  # its fallback is the same once more, with the file's words on standard output
            inputs = {
                value.name: list(value.shape) for value in session.get_inputs()
            }  # names may be no UTF-8
            return session, inputs, [value.name for value in session.get_outputs()]
        except Exception as error:  # onnxruntime has a dozen types of its own, below Exception only.
            raise self._error(why_not_loaded(error)) from error

    def _measure(self, data: bytes) -> ModelCost:
        """The cost of the file, which is accepted for one agent: onnxruntime computes while it loads it."""
        import onnx  # takes a tenth of a second

        from .cost import CostError, ModelCost

        try:
            model = onnx.load_model_from_string(data)
            cost = ModelCost(model)
            cost.require({name: [size or 1 for size in shape] for name, shape in cost.inputs.items()})
        except CostError as error:
            raise self._error(why_too_new(model) or str(error)) from error
        except Exception as error:  # a DecodeError of protobuf, which differs from version to version
            raise self._error(NO_FILE) from error
        return cost

    def _accept(self, feeds: Mapping[str, NDArray[Any]], shapes: tuple[Shape, ...]) -> None:
        """Check the cost for inputs of shapes that are new."""
        from .cost import CostError

        try:
            self._cost.require(dict(zip(feeds, shapes)))
        except CostError as error:
            raise self._error(str(error)) from error
        if len(self._accepted) >= _MOST_SHAPES:
            self._accepted.clear()
        self._accepted.add(shapes)

    def _check_names(self) -> None:
        legacy = [name for name in self._inputs if name.startswith(_LEGACY)]
        if legacy:
            raise self._error(
                f"its inputs {legacy} are those of brains before version 3; "
                f"export it again with a newer trainer"
            )
        unknown = [
            name
            for name in self._inputs
            if name not in ("action_masks", "recurrent_in") and not _OBSERVATION.fullmatch(name)
        ]
        if unknown:
            raise self._error(
                f"it has unknown inputs {unknown}; known are obs_<i>, action_masks and recurrent_in"
            )
        missing = [name for name in ("version_number", "memory_size") if name not in self._outputs]
        if missing:
            raise self._error(
                f"it lacks the outputs {missing}; is it a policy that ML-Agents or Lanista exported?"
            )
        if not self._action_names:
            raise self._error(
                f"it has neither continuous_actions nor discrete_actions among its outputs {self._outputs}"
            )
        shapes = {
            "continuous_actions": "continuous_action_output_shape",
            "discrete_actions": "discrete_action_output_shape",
        }
        missing = [shapes[name] for name in self._action_names if shapes[name] not in self._outputs]
        if missing:
            raise self._error(f"it lacks the outputs {missing}, which say how many actions it gives")

    def _constants(self) -> dict[str, NDArray[np.float32]]:
        names = [
            "version_number",
            "memory_size",
            "continuous_action_output_shape",
            "discrete_action_output_shape",
        ]
        present = [name for name in names if name in self._outputs]
        shapes = {
            name: [size if isinstance(size, int) else 1 for size in shape]
            for name, shape in self._inputs.items()
        }
        for name, shape in shapes.items():
            if math.prod(shape) > MOST_NUMBERS:
                raise self._error(
                    f"its input {name!r} has the shape {shape}, which is more than the {MOST_NUMBERS:,} "
                    "numbers that an observation may have"
                )
        zeros = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        return dict(zip(present, self._run(present, zeros)))

    def _run(self, names: Sequence[str], feeds: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        shapes = tuple([array.shape for array in feeds.values()])
        if shapes not in self._accepted:
            self._accept(feeds, shapes)
        try:
            return list(self._session.run(names, feeds))
        except Exception as error:  # as in `_load`
            raise self._error(f"it fails when it is run: {plain(error)}") from error

    def _error(self, problem: str) -> BrainError:
        shown = harmless(problem if len(problem) <= _MOST_LETTERS else f"{problem[:_MOST_LETTERS]}...")
        return BrainError(f"Brain '{self.path}': {shown}.")
