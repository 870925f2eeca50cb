"""The engine's side of the protocol in Python: steps to bytes, and the trainer's answers to arrays."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from google.protobuf.message import DecodeError
from mlagents_envs.base_env import BehaviorSpec, ObservationSpec
from numpy.typing import NDArray

from ..errors import WireError
from .handshake import API_VERSION, Capabilities
from .layout import BYTE, FLOAT, Layout, LayoutBuilder, Layouts, Piece, RecordWriter, RowWriter, ints
from .messages import (
    ActionSpecProto,
    BrainParametersProto,
    ObservationProto,
    UnityMessageProto,
    UnityOutputProto,
    UnityRLInitializationOutputProto,
    UnityRLInputProto,
)
from .png_writer import FAST, encode_pictures
from .wire_format import (
    BYTES,
    FIXED32,
    HEADER_OK,
    NOWHERE,
    VARINT,
    Malformed,
    UnknownLayout,
    delimited,
    fields,
    head,
    parts,
    records,
    text,
    varint,
    varints,
    width,
)

Observed = NDArray[np.float32] | NDArray[np.uint8]
"""One observation of n agents, [n, *shape]. Bytes are a picture, which goes out as PNG."""

_Sizes = tuple[tuple[str, int], ...]
"""Columns by name, with the numbers that one agent has in each."""

_PNG = 1
_GREY = (0, -1, -1)
"""Of a picture's three planes the first one is its only channel. Unsaid, the mean of all three would be."""
_BYTES = np.dtype(np.uint8)


@dataclass(frozen=True, slots=True)
class AgentBatch:
    """The n agents of one behavior that report at a step: they ask for a decision, or they are done.

    The trainer's actions come in the order of those who are not done.
    """

    obs: Sequence[Observed]
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


class AgentWriter:
    """Writes the agents of one behavior as a list of AgentInfoProto, columns at once."""

    def __init__(self, name: str, spec: BehaviorSpec, level: int = FAST) -> None:
        """`name`: of the behavior, for messages; `level`: as of `encode_pictures`."""
        self._name = name
        self._level = level
        self._mask_size = sum(spec.action_spec.discrete_branches)
        self._shapes = [observation.shape for observation in spec.observation_specs]
        self._plain = [_described(observation) for observation in spec.observation_specs]
        self._compressed = [_described(observation, _PNG) for observation in spec.observation_specs]
        self._record_writer = cache(self._make_record_writer)
        self._row_writers = cache(self._make_row_writers)

    def write(self, batch: AgentBatch) -> bytes:
        """The list's content.

        Raises:
            ValueError: An array does not have its shape, or there are bytes where no picture is.
        """
        count = len(batch.agent_id)
        if count == 0:
            return b""
        self._check(batch, count)
        columns = {key: values.reshape(count, -1) for key, values in self._columns(batch).items()}
        sizes = tuple((key, values.shape[1]) for key, values in columns.items())
        pictures = tuple(k for k, values in enumerate(batch.obs) if values.dtype == _BYTES)
        if not pictures:
            return self._record_writer(sizes).write(count, columns)
        # A PNG has a length of its own, and observations come in order: each agent is put together.
        first, *others = self._row_writers(sizes, pictures)
        parts = [_rows(first.write(count, columns))]
        for k, writer in zip(pictures, others):
            before, pictures_of = self._compressed[k], batch.obs[k].astype(np.uint8, copy=False)
            files = encode_pictures(pictures_of, self._level)
            parts.append([delimited(13, before + delimited(3, png)) for png in files])
            parts.append(_rows(writer.write(count, columns)))
        return b"".join(delimited(1, b"".join(agent)) for agent in zip(*parts))

    def _columns(self, batch: AgentBatch) -> dict[str, NDArray[Any]]:
        """What is written besides pictures; what is zero for all agents is left out."""
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
        """Writes AgentInfoProtos with these columns, of so many bytes or floats each."""
        before, observations, after = self._pieces(dict(sizes))
        return RecordWriter([*before, *observations, *after])

    def _make_row_writers(self, sizes: _Sizes, pictures: tuple[int, ...]) -> list[RowWriter]:
        """Write what is before the first picture, between it and the second, and so on."""
        before, observations, after = self._pieces(dict(sizes))
        cuts = [0, *(k + 1 for k in pictures)]
        parts = [observations[low : high - 1] for low, high in pairwise(cuts)]
        parts.append(observations[cuts[-1] :])
        parts[0], parts[-1] = [*before, *parts[0]], [*parts[-1], *after]
        return [RowWriter(part) for part in parts]

    def _pieces(self, size: Mapping[str, int]) -> tuple[list[Piece], list[Piece], list[Piece]]:
        """An agent's own, its observations (one each), its group's."""

        def piece(name: str, head: bytes, dtype: Any = BYTE) -> Piece:
            return Piece(head, name, dtype, size[name])

        before = [piece("reward", b"\x3d", FLOAT)]
        if "done" in size:
            before += [piece("done", b"\x40"), piece("interrupted", b"\x48")]
        before.append(piece("agent_id", b"\x50"))
        if "mask" in size:
            before.append(piece("mask", head(11, size["mask"])))
        observations = []
        for index, proto in enumerate(self._plain):
            count = size.get(f"obs{index}", 0)
            floats = head(1, 4 * count) if count else b""
            data = head(4, len(floats) + 4 * count) + floats
            start = head(13, len(proto) + len(data) + 4 * count) + proto + data
            observations.append(Piece(start, f"obs{index}", FLOAT, count))
        after = []
        if "group_id" in size:
            after += [piece("group_id", b"\x70"), piece("group_reward", b"\x7d", FLOAT)]
        return before, observations, after


def _described(observation: ObservationSpec, compression: int = 0) -> bytes:
    """An ObservationProto without its values."""
    gray = compression == _PNG and len(observation.shape) == 3 and observation.shape[0] == 1
    return ObservationProto(
        shape=observation.shape,
        compression_type=compression,
        compressed_channel_mapping=_GREY if gray else (),
        dimension_properties=[int(value) for value in observation.dimension_property],
        observation_type=observation.observation_type.value,
        name=observation.name,
    ).SerializeToString()


def _rows(table: NDArray[np.uint8]) -> list[bytes]:
    data, size = table.tobytes(), table.shape[1]
    return [data[at : at + size] for at in range(0, len(data), size)] if size else [b""] * len(table)


__all__ = [
    "AgentBatch",
    "Observed",
    "StepEncoder",
    "TrainerReply",
    "decode_reply",
    "encode_hello",
    "encode_ready",
]


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
    """Writes the messages of steps. A behavior is described in the first one in which it has agents."""

    def __init__(self, specs: Mapping[str, BehaviorSpec], level: int = FAST) -> None:
        """`specs`: by full behavior name, such as `Walker?team=0`. `level`: as of `encode_pictures`."""
        self._level = level
        self._specs: dict[str, BehaviorSpec] = {}
        self._described: set[str] = set()
        self._writers: dict[str, AgentWriter] = {}
        self.learn(specs)

    def learn(self, specs: Mapping[str, BehaviorSpec]) -> None:
        """Take in behaviors that are not known yet."""
        for name, spec in specs.items():
            if name not in self._specs:
                self._specs[name] = spec
                self._writers[name] = AgentWriter(name, spec, self._level)

    def encode(self, batches: Mapping[str, AgentBatch], side_channel: bytes = b"") -> bytes:
        """One step's message. Behaviors without agents may be left out.

        Raises:
            ValueError: A behavior is not among the specs, or an array does not have its shape.
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


Actions = tuple[NDArray[np.float32], NDArray[np.int32]]
_FLOAT = np.dtype("<f4")
_OK, _RESET, _QUIT = 200, 1, 2
_COMMAND = 4  # UnityRLInputProto's field


@dataclass(frozen=True, slots=True)
class TrainerReply:
    """What the engine is to do next."""

    kind: Literal["initialization", "step", "reset", "quit"]
    seed: int = 0
    """Of an initialization, as are the next two."""
    num_areas: int = 0
    communication_version: str = ""
    actions: dict[str, Actions] = field(default_factory=dict)
    """Of a step: for each behavior continuous [n, A] and discrete [n, K] actions."""
    side_channel: bytes = b""


def decode_reply(data: bytes) -> TrainerReply:
    """Decodes the trainer's answer. Raises WireError when it is none."""
    with suppress(UnknownLayout, Malformed):  # then protobuf has the last word
        reply = _fast(data)
        if reply is not None:
            return reply
    try:
        return _plain(UnityMessageProto.FromString(data))
    except DecodeError as error:
        raise WireError(f"the trainer's answer of {len(data)} bytes is malformed: {error}") from error


def _plain(message: UnityMessageProto) -> TrainerReply:
    """Any answer, through protobuf's objects."""
    rl_input = message.unity_input.rl_input
    if message.header.status != _OK or rl_input.command == _QUIT:
        return TrainerReply("quit")
    if message.unity_input.HasField("rl_initialization_input"):
        proto = message.unity_input.rl_initialization_input
        return TrainerReply("initialization", proto.seed, proto.num_areas, proto.communication_version)
    actions = {name: _plain_actions(name, listed) for name, listed in rl_input.agent_actions.items()}
    kind: Literal["reset", "step"] = "reset" if rl_input.command == _RESET else "step"
    return TrainerReply(kind, actions=actions, side_channel=rl_input.side_channel)


def _plain_actions(name: str, listed: UnityRLInputProto.ListAgentActionProto) -> Actions:
    continuous = [list(action.continuous_actions) for action in listed.value]
    discrete = [list(action.discrete_actions) for action in listed.value]
    try:
        count = len(listed.value)
        return (
            np.array(continuous, np.float32).reshape(count, -1 if any(continuous) else 0),
            np.array(discrete, np.int32).reshape(count, -1 if any(discrete) else 0),
        )
    except ValueError as error:
        raise WireError(f"the trainer's actions for {name!r} are not of one size for all agents") from error


def _fast(data: bytes) -> TrainerReply | None:
    """The answer that says: step, with these actions. None for any other."""
    message = parts(data, (0, len(data)), {1: BYTES, 3: BYTES})
    status = parts(data, message.get(1, NOWHERE), {1: VARINT}).get(1)
    if status is None or varint(data, *status)[0] != _OK:
        return None
    inner = parts(data, message.get(3, NOWHERE), {1: BYTES, 2: BYTES})
    if 1 not in inner or 2 in inner:
        return None
    actions: dict[str, Actions] = {}
    side_channel = b""
    for number, wire, start, stop in fields(data, *inner[1]):
        if number == _COMMAND:
            return None
        if (number, wire) == (1, BYTES):
            entry = parts(data, (start, stop), {1: BYTES, 2: BYTES})
            actions[text(data, entry.get(1, NOWHERE))] = _fast_actions(data, *entry.get(2, NOWHERE))
        elif (number, wire) == (5, BYTES):
            side_channel = data[start:stop]
    return TrainerReply("step", actions=actions, side_channel=side_channel)


def _fast_actions(data: bytes, start: int, stop: int) -> Actions:
    """The actions of one behavior, a column at a time. Raises UnknownLayout where protobuf is needed."""
    starts, lengths = records(data, start, stop)
    if len(starts) == 0:
        return np.zeros((0, 0), np.float32), np.zeros((0, 0), np.int32)
    grouped = _LAYOUTS.group(data, starts, lengths)
    sizes = {_sizes(layout) for layout, _, _ in grouped.groups}
    if grouped.unknown or len(sizes) != 1:
        raise UnknownLayout
    (size, branches) = sizes.pop()
    continuous = np.zeros((len(starts), size), np.float32)
    discrete = np.zeros((len(starts), branches), np.int32)
    for _, rows, agents in grouped.groups:
        if size:
            continuous[rows] = agents["continuous"]
        for branch in range(branches):
            discrete[rows, branch] = ints(agents[f"branch{branch}"])
    return continuous, discrete


def _sizes(layout: Layout) -> tuple[int, int]:
    continuous = layout.dtype["continuous"].shape[0] if "continuous" in layout.names else 0
    return continuous, sum(name.startswith("branch") for name in layout.names)


def _layout(data: bytes, start: int, stop: int) -> Layout:
    """The layout of an AgentActionProto. Raises UnknownLayout where there can be none."""
    builder = LayoutBuilder(data, start, stop)
    seen = set()
    for number, wire, at, end in fields(data, start, stop):
        if number in seen:
            raise UnknownLayout
        seen.add(number)
        if (number, wire) == (6, BYTES) and (end - at) % 4 == 0:
            builder.number("continuous", at, end, (_FLOAT, ((end - at) // 4,)))
        elif (number, wire) == (7, BYTES):
            branch = 0
            while at < end:
                _, after = varint(data, at, end)
                builder.varint(f"branch{branch}", at, after)
                at, branch = after, branch + 1
        elif (number, wire) in ((1, BYTES), (4, FIXED32)) and (end - at) % 4 == 0:
            builder.number(None, at, end, _FLOAT)  # for older engines
        else:
            raise UnknownLayout
    return builder.build()


_LAYOUTS = Layouts(_layout)
