"""The engine's side of the protocol in Python: steps to bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from mlagents_envs.base_env import BehaviorSpec, ObservationSpec
from numpy.typing import NDArray

from ..images import as_floats
from .dialect import UNITY, Dialect
from .handshake import Capabilities
from .layout import BYTE, FLOAT, Piece, RecordWriter, RowWriter
from .png_writer import FAST, encode_images
from .wire_format import FIXED32, HEADER_OK, VARINT, delimited, head, tag, varints, width

Observed = NDArray[np.float32] | NDArray[np.uint8]
"""One observation of n agents, [n, *shape]. Bytes are an image, sent as PNG where the dialect has that."""

_Sizes = tuple[tuple[str, int], ...]
"""Columns by name, with the number of values per agent."""

_PNG = 1
_GRAY = (0, -1, -1)
"""The channel mapping of a gray image: the first of its file's three planes, not their mean."""
_BYTES = np.dtype(np.uint8)


@dataclass(frozen=True, slots=True)
class AgentBatch:
    """The n agents of one behavior that report at a step: they request a decision, or are done.

    The trainer's actions are in the order of those that are not done.
    """

    obs: Sequence[Observed]
    """One array [n, *shape] for each observation of the specification."""
    reward: NDArray[np.float32]
    """[n], since the agent's last report."""
    done: NDArray[np.bool_]
    """[n], the episode has ended; a later report under this id is of a new one."""
    interrupted: NDArray[np.bool_]
    """[n], it ended at a limit of steps and not by what the agent did."""
    agent_id: NDArray[np.int32]
    """[n]; an agent may keep its own over episodes, as Unity's do."""
    group_id: NDArray[np.int32]
    """[n], 0 for no group."""
    group_reward: NDArray[np.float32]
    """[n]."""
    action_mask: NDArray[np.bool_] | None = None
    """[n, sum of the branches' sizes], True where an action is not allowed."""


class AgentWriter:
    """Writes the agents of one behavior as a list of AgentInfoProto, columns at once."""

    def __init__(self, name: str, spec: BehaviorSpec, level: int = FAST, dialect: Dialect = UNITY) -> None:
        """`name`: the behavior's, for messages. `level`: as of `encode_images`."""
        self._name = name
        self._level = level
        self._numbers = dialect.numbers("AgentInfoProto")
        observation = dialect.numbers("ObservationProto")
        self._floats, self._png = observation["float_data"], observation["compressed_data"]
        self._has_png = dialect.has("ObservationProto", "compressed_data")
        self._mask_size = sum(spec.action_spec.discrete_branches)
        self._shapes = [observation.shape for observation in spec.observation_specs]
        self._plain = [_described(dialect, each) for each in spec.observation_specs]
        self._compressed = [_described(dialect, each, _PNG) for each in spec.observation_specs]
        self._record_writer = cache(self._make_record_writer)
        self._row_writers = cache(self._make_row_writers)

    def write(self, batch: AgentBatch) -> bytes:
        """The list's content.

        Raises:
            ValueError: An array has another shape, or an observation that is not an image came as bytes.
        """
        count = len(batch.agent_id)
        if count == 0:
            return b""
        self._check(batch, count)
        if not self._has_png:
            batch = replace(batch, obs=[as_floats(values) for values in batch.obs])
        columns = {key: values.reshape(count, -1) for key, values in self._columns(batch).items()}
        sizes = tuple((key, values.shape[1]) for key, values in columns.items())
        images = tuple(k for k, values in enumerate(batch.obs) if values.dtype == _BYTES)
        if not images:
            return self._record_writer(sizes).write(count, columns)
        # PNG files differ in length, and observations keep their order: agents are assembled one by one.
        first, *others = self._row_writers(sizes, images)
        parts = [_rows(first.write(count, columns))]
        for k, writer in zip(images, others):
            before = self._compressed[k]
            files = encode_images(batch.obs[k].astype(np.uint8, copy=False), self._level)
            parts.append([self._observation(before + delimited(self._png, png)) for png in files])
            parts.append(_rows(writer.write(count, columns)))
        return b"".join(delimited(1, b"".join(agent)) for agent in zip(*parts))

    def _observation(self, content: bytes) -> bytes:
        return delimited(self._numbers["observations"], content)

    def _columns(self, batch: AgentBatch) -> dict[str, NDArray[Any]]:
        """The columns other than images; those that are zero for all agents are omitted."""
        columns: dict[str, NDArray[Any]] = {"reward": batch.reward}
        if batch.done.any():
            columns["done"], columns["interrupted"] = batch.done, batch.interrupted
        columns["agent_id"] = varints(batch.agent_id, width(batch.agent_id))
        if batch.action_mask is not None and self._mask_size:
            columns["mask"] = batch.action_mask
        for index, values in enumerate(batch.obs):
            if values.size and values.dtype != _BYTES:
                columns[f"obs{index}"] = values
        if batch.group_id.any() or batch.group_reward.any():
            columns["group_id"] = varints(batch.group_id, width(batch.group_id))
            columns["group_reward"] = batch.group_reward
        return columns

    def _check(self, batch: AgentBatch, count: int) -> None:
        names = ("reward", "done", "interrupted", "group_id", "group_reward")
        shapes: dict[str, tuple[Any, Any]] = {name: (getattr(batch, name).shape, (count,)) for name in names}
        if len(batch.obs) != len(self._shapes):
            raise ValueError(
                f"Behavior {self._name!r}: {len(batch.obs)} observations, expected {len(self._shapes)}."
            )
        for index, (values, shape) in enumerate(zip(batch.obs, self._shapes)):
            shapes[f"observation {index}"] = (values.shape, (count, *shape))
            if values.dtype == _BYTES and len(shape) != 3:
                raise ValueError(
                    f"Behavior {self._name!r}: observation {index} of the shape {shape} came as uint8, "
                    "which is for pictures (channels, height, width); give float32."
                )
        if batch.action_mask is not None:
            shapes["action_mask"] = (batch.action_mask.shape, (count, self._mask_size))
        for name, (found, expected) in shapes.items():
            if found != expected:
                raise ValueError(f"Behavior {self._name!r}: {name} has shape {found}, expected {expected}.")

    def _make_record_writer(self, sizes: _Sizes) -> RecordWriter:
        """The writer of AgentInfoProtos with these columns."""
        before, observations, after = self._pieces(dict(sizes))
        return RecordWriter([*before, *observations, *after])

    def _make_row_writers(self, sizes: _Sizes, images: tuple[int, ...]) -> list[RowWriter]:
        """Writers of the columns before the first image, between it and the second, and so on."""
        before, observations, after = self._pieces(dict(sizes))
        cuts = [0, *(k + 1 for k in images)]
        parts = [observations[low : high - 1] for low, high in pairwise(cuts)]
        parts.append(observations[cuts[-1] :])
        parts[0], parts[-1] = [*before, *parts[0]], [*parts[-1], *after]
        return [RowWriter(part) for part in parts]

    def _pieces(self, size: Mapping[str, int]) -> tuple[list[Piece], list[Piece], list[Piece]]:
        """The columns before the observations, the observations, and the columns after them."""
        numbers = self._numbers

        def number(column: str, field: str) -> Piece:
            return Piece(tag(numbers[field], FIXED32), column, FLOAT, size[column])

        def integer(column: str, field: str) -> Piece:
            return Piece(tag(numbers[field], VARINT), column, BYTE, size[column])

        before = [number("reward", "reward")]
        if "done" in size:
            before += [integer("done", "done"), integer("interrupted", "max_step_reached")]
        before.append(integer("agent_id", "id"))
        if "mask" in size:
            before.append(Piece(head(numbers["action_mask"], size["mask"]), "mask", BYTE, size["mask"]))
        observations = []
        for index, proto in enumerate(self._plain):
            count = size.get(f"obs{index}", 0)
            floats = head(1, 4 * count) if count else b""
            data = head(self._floats, len(floats) + 4 * count) + floats
            start = head(numbers["observations"], len(proto) + len(data) + 4 * count) + proto + data
            observations.append(Piece(start, f"obs{index}", FLOAT, count))
        after = []
        if "group_id" in size:
            after += [integer("group_id", "group_id"), number("group_reward", "group_reward")]
        return before, observations, after


def _described(dialect: Dialect, observation: ObservationSpec, compression: int = 0) -> bytes:
    """An ObservationProto without its values."""
    gray = compression == _PNG and len(observation.shape) == 3 and observation.shape[0] == 1
    return dialect.make(
        "ObservationProto",
        shape=observation.shape,
        compression_type=compression,
        compressed_channel_mapping=_GRAY if gray else (),
        dimension_properties=[int(value) for value in observation.dimension_property],
        observation_type=observation.observation_type.value,
        name=observation.name,
    ).SerializeToString()


def _rows(table: NDArray[np.uint8]) -> list[bytes]:
    data, size = table.tobytes(), table.shape[1]
    return [data[at : at + size] for at in range(0, len(data), size)] if size else [b""] * len(table)


def encode_hello(
    name: str,
    package_version: str,
    communication_version: str | None = None,
    capabilities: Capabilities | None = None,
    dialect: Dialect = UNITY,
) -> bytes:
    """The first message: the engine introduces itself, by default with the dialect's own version."""
    proto = dialect.make(
        "UnityRLInitializationOutputProto",
        name=name,
        communication_version=communication_version or dialect.api_version,
        package_version=package_version,
        capabilities=(capabilities or Capabilities()).proto(),
    )
    output = dialect.messages.UnityOutputProto(rl_initialization_output=proto)
    return HEADER_OK + delimited(2, output.SerializeToString())


def encode_ready() -> bytes:
    """The second message, whose answer is the first reset: a header alone."""
    return HEADER_OK


class StepEncoder:
    """Writes the messages of steps. A behavior is described in the first one in which it has agents."""

    def __init__(
        self, specs: Mapping[str, BehaviorSpec], level: int = FAST, dialect: Dialect = UNITY
    ) -> None:
        """`specs`: by full behavior name, such as `Walker?team=0`. `level`: as of `encode_images`."""
        self._level = level
        self._dialect = dialect
        numbers = dialect.numbers("UnityRLOutputProto")
        self._agents, self._side_channel = numbers["agentInfos"], numbers["side_channel"]
        self._specs: dict[str, BehaviorSpec] = {}
        self._described: set[str] = set()
        self._writers: dict[str, AgentWriter] = {}
        self.add(specs)

    def add(self, specs: Mapping[str, BehaviorSpec]) -> None:
        """Add behaviors that are not known yet."""
        for name, spec in specs.items():
            if name not in self._specs:
                self._specs[name] = spec
                self._writers[name] = AgentWriter(name, spec, self._level, self._dialect)

    def encode(self, batches: Mapping[str, AgentBatch], side_channel: bytes = b"") -> bytes:
        """One step's message. Behaviors without agents may be omitted.

        Raises:
            ValueError: A behavior is not among the specs, or an array does not have its shape.
        """
        unknown = batches.keys() - self._writers.keys()
        if unknown:
            raise ValueError(
                f"No specification of behavior {min(unknown)!r}; known are {sorted(self._writers)}."
            )
        writers = self._writers
        entries = [
            delimited(self._agents, delimited(1, name.encode()) + delimited(2, writers[name].write(batch)))
            for name, batch in batches.items()
        ]
        if side_channel:
            entries.append(delimited(self._side_channel, side_channel))
        output = delimited(1, b"".join(entries))
        new = [name for name, batch in batches.items() if len(batch.agent_id) and name not in self._described]
        if new:
            self._described.update(new)
            output += delimited(2, self._describe(new))
        return HEADER_OK + delimited(2, output)

    def _describe(self, names: list[str]) -> bytes:
        brains = []
        messages = self._dialect.messages
        for name in names:
            spec = self._specs[name].action_spec
            action = messages.ActionSpecProto(
                num_continuous_actions=spec.continuous_size,
                num_discrete_actions=len(spec.discrete_branches),
                discrete_branch_sizes=spec.discrete_branches,
            )
            brains.append(
                messages.BrainParametersProto(brain_name=name, is_training=True, action_spec=action)
            )
        return messages.UnityRLInitializationOutputProto(brain_parameters=brains).SerializeToString()
