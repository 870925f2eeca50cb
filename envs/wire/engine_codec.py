"""The engine's side, for engines that are written in Python: steps to bytes, answers to arrays."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray

from .hello import Capabilities
from .messages import (
    ActionSpecProto,
    BrainParametersProto,
    ObservationProto,
    UnityOutputProto,
    UnityRLInitializationOutputProto,
)
from .records import BYTE, FLOAT, Piece, RecordWriter
from .trainer_reply import TrainerReply, decode_reply
from .versions import API_VERSION
from .write import HEADER_OK, delimited, head, varints, width

__all__ = ["AgentBatch", "StepEncoder", "TrainerReply", "decode_reply", "encode_hello", "encode_ready"]


@dataclass(frozen=True, slots=True)
class AgentBatch:
    """The n agents of one behaviour that report at a step: they ask for a decision, or they are done.

    The trainer's actions come in the order of those who are not done.
    """

    obs: list[NDArray[np.float32]]
    """One array [n, *shape] for each observation of the specification."""
    reward: NDArray[np.float32]
    """[n], since the agent's last report."""
    done: NDArray[np.bool_]
    """[n], the episode has ended; this is the agent's last report under its id."""
    interrupted: NDArray[np.bool_]
    """[n], it ended by a limit of steps and not by what the agent did."""
    agent_id: NDArray[np.int32]
    """[n], a new one for every episode."""
    group_id: NDArray[np.int32]
    """[n], 0 for no group."""
    group_reward: NDArray[np.float32]
    """[n]."""
    action_mask: NDArray[np.bool_] | None = None
    """[n, sum of the branches' sizes], True where an action is not allowed."""


def encode_hello(
    name: str,
    package_version: str,
    communication_version: str = API_VERSION,
    capabilities: Capabilities | None = None,
) -> bytes:
    """The first message: the engine introduces itself."""
    proto = UnityRLInitializationOutputProto(
        name=name,
        communication_version=communication_version,
        package_version=package_version,
        capabilities=(capabilities or Capabilities()).proto(),
    )
    return HEADER_OK + delimited(2, UnityOutputProto(rl_initialization_output=proto).SerializeToString())


def encode_ready() -> bytes:
    """The second message, whose answer is the first reset: a header alone."""
    return HEADER_OK


class StepEncoder:
    """Writes the messages of steps. A behaviour is described in the first one in which it has agents."""

    def __init__(self, specs: Mapping[str, BehaviorSpec]) -> None:
        """`specs`: every behaviour, by its full name, such as `Walker?team=0`."""
        self._specs = dict(specs)
        self._described: set[str] = set()
        self._writers = {name: _AgentWriter(name, spec) for name, spec in self._specs.items()}

    def encode(self, batches: Mapping[str, AgentBatch], side_channel: bytes = b"") -> bytes:
        """One step's message. Behaviours without agents may be left out.

        Raises:
            ValueError: A behaviour is not among the specs, or an array does not have its shape.
        """
        unknown = batches.keys() - self._writers.keys()
        if unknown:
            raise ValueError(
                f"No specification of behavior {min(unknown)!r}; known are {sorted(self._writers)}."
            )
        entries = [
            delimited(2, delimited(1, name.encode()) + delimited(2, self._writers[name].write(batch)))
            for name, batch in batches.items()
        ]
        if side_channel:
            entries.append(delimited(3, side_channel))
        output = delimited(1, b"".join(entries))
        new = [name for name, batch in batches.items() if len(batch.agent_id) and name not in self._described]
        if new:
            self._described.update(new)
            output += delimited(2, self._describe(new))
        return HEADER_OK + delimited(2, output)

    def _describe(self, names: list[str]) -> bytes:
        brains = []
        for name in names:
            spec = self._specs[name].action_spec
            action = ActionSpecProto(
                num_continuous_actions=spec.continuous_size,
                num_discrete_actions=len(spec.discrete_branches),
                discrete_branch_sizes=spec.discrete_branches,
            )
            brains.append(BrainParametersProto(brain_name=name, is_training=True, action_spec=action))
        return UnityRLInitializationOutputProto(brain_parameters=brains).SerializeToString()


class _AgentWriter:
    """Writes the agents of one behaviour as a list of AgentInfoProto, columns at once."""

    def __init__(self, name: str, spec: BehaviorSpec) -> None:
        self._name = name
        self._mask_size = sum(spec.action_spec.discrete_branches)
        self._shapes = [observation.shape for observation in spec.observation_specs]
        self._observations = [
            ObservationProto(
                shape=observation.shape,
                dimension_properties=[int(value) for value in observation.dimension_property],
                observation_type=observation.observation_type.value,
                name=observation.name,
            ).SerializeToString()
            for observation in spec.observation_specs
        ]
        self._writer = cache(self._make_writer)

    def write(self, batch: AgentBatch) -> bytes:
        """The list's content."""
        count = len(batch.agent_id)
        if count == 0:
            return b""
        self._check(batch, count)
        columns: dict[str, NDArray[Any]] = {"reward": batch.reward}
        if batch.done.any():
            columns["done"], columns["interrupted"] = batch.done, batch.interrupted
        columns["agent_id"] = varints(batch.agent_id, width(batch.agent_id))
        if batch.action_mask is not None and self._mask_size:
            columns["mask"] = batch.action_mask
        for index, values in enumerate(batch.obs):
            if values.size:
                columns[f"obs{index}"] = values
        if batch.group_id.any() or batch.group_reward.any():
            columns["group_id"] = varints(batch.group_id, width(batch.group_id))
            columns["group_reward"] = batch.group_reward
        columns = {name: values.reshape(count, -1) for name, values in columns.items()}
        sizes = tuple((name, values.shape[1]) for name, values in columns.items())
        return self._writer(sizes).write(count, columns)

    def _check(self, batch: AgentBatch, count: int) -> None:
        names = ("reward", "done", "interrupted", "group_id", "group_reward")
        shapes: dict[str, tuple[Any, Any]] = {name: (getattr(batch, name).shape, (count,)) for name in names}
        if len(batch.obs) != len(self._shapes):
            raise ValueError(
                f"Behavior {self._name!r}: {len(batch.obs)} observations, expected {len(self._shapes)}."
            )
        for index, (values, shape) in enumerate(zip(batch.obs, self._shapes)):
            shapes[f"observation {index}"] = (values.shape, (count, *shape))
        if batch.action_mask is not None:
            shapes["action_mask"] = (batch.action_mask.shape, (count, self._mask_size))
        for name, (found, expected) in shapes.items():
            if found != expected:
                raise ValueError(f"Behavior {self._name!r}: {name} has shape {found}, expected {expected}.")

    def _make_writer(self, sizes: tuple[tuple[str, int], ...]) -> RecordWriter:
        """Writes AgentInfoProtos with these columns, of so many bytes or floats each."""
        size = dict(sizes)

        def piece(name: str, head: bytes, dtype: Any = BYTE) -> Piece:
            return Piece(head, name, dtype, size[name])

        pieces = [piece("reward", b"\x3d", FLOAT)]
        if "done" in size:
            pieces += [piece("done", b"\x40"), piece("interrupted", b"\x48")]
        pieces.append(piece("agent_id", b"\x50"))
        if "mask" in size:
            pieces.append(piece("mask", head(11, size["mask"])))
        for index, proto in enumerate(self._observations):
            count = size.get(f"obs{index}", 0)
            floats = head(1, 4 * count) if count else b""
            data = head(4, len(floats) + 4 * count) + floats
            before = head(13, len(proto) + len(data) + 4 * count) + proto + data
            pieces.append(Piece(before, f"obs{index}", FLOAT, count))
        if "group_id" in size:
            pieces += [piece("group_id", b"\x70"), piece("group_reward", b"\x7d", FLOAT)]
        return RecordWriter(pieces)
