"""The agents of one behavior: from a message through columns to DecisionSteps and TerminalSteps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mlagents_envs.base_env import DecisionSteps, TerminalSteps
from numpy.typing import NDArray

from ..base import BehaviorSteps, ObsArray
from ..errors import ObservationError
from ..images import as_bytes
from .dialect import UNITY, UNREADABLE, Dialect
from .images import CompressedImage
from .layout import FLOAT, GroupedAgents, Layout, LayoutBuilder, Layouts, Numbers, Rows, ints
from .messages import AgentInfoProto, ObservationProto
from .specs import BehaviorFormat, SensorFormat
from .wire_format import BYTES, FIXED32, VARINT, Malformed, UnknownLayout, fields, packed_ints, records


@dataclass(slots=True)
class Run:
    """Agents of one layout in a message, and the rows of the columns that they fill."""

    layout: Layout
    which: Rows
    starts: Numbers
    """The indices of the first bytes of the agents' records [count] in the message."""
    start: int
    step: int
    """The number of bytes from one record to the next; 0 where that differs."""

    @classmethod
    def of(cls, layout: Layout, which: Rows, starts: Numbers) -> "Run":
        """The run of the agents `which`, of those whose records begin at `starts`."""
        own = starts[which]
        step = int(own[1] - own[0]) if len(own) > 1 else 1
        return cls(layout, which, own, int(own[0]), 0 if (np.diff(own) - step).any() else step)

    def rows(self, data: bytes) -> NDArray[np.uint8]:
        """The agents' records [count, length] in a message; a view where they lie at equal distances."""
        if self.step:
            shape = len(self.starts), self.layout.dtype.itemsize
            return np.ndarray(shape, np.uint8, data, self.start, (self.step, 1))
        rows: NDArray[np.uint8] = self._windows(data)[self.starts]
        return rows

    def release(self, mask: NDArray[np.uint8]) -> None:
        """Set the records' bytes in a message's mask, so that only the bits of the structure are ones."""
        self._windows(mask)[self.starts] = self.layout.mask

    def _windows(self, data: bytes | NDArray[np.uint8]) -> NDArray[np.uint8]:
        length = self.layout.dtype.itemsize
        shape = len(data) - length + 1, length
        return np.ndarray(shape, np.uint8, data, 0, (1, 1))  # type: ignore[arg-type]


MOST_RUNS = 4
"""The most layouts of a behavior's agents in a message with a template: with more, the next message hardly
has the same."""
MOST_PIXELS = 1 << 27
"""The most pixels of all pictures of a behavior in one message: a few bytes must not claim gigabytes."""


class AgentColumns:
    """One row for each of n agents, in the message's order; fields that the engine omitted are zero."""

    def __init__(self, count: int, sensors: Sequence[SensorFormat], mask_size: int, where: str) -> None:
        """`where`: names the engine and the behavior in errors."""
        self._sensors = sensors
        self._where = where
        self.runs: list[Run] | None = []
        """The runs of all agents; None unless each has a layout."""
        self.images: list[CompressedImage] = []
        """The images that are still to be decoded into their rows."""
        self.reward = np.zeros(count, np.float32)
        self.done = np.zeros(count, np.bool_)
        self.interrupted = np.zeros(count, np.bool_)
        self.agent_id = np.zeros(count, np.int32)
        self.group_id = np.zeros(count, np.int32)
        self.group_reward = np.zeros(count, np.float32)
        self.mask = np.zeros((count, mask_size), np.bool_)
        """A mask [n, sum of the branches' sizes], True where an action is not allowed."""
        self.obs: list[ObsArray] = [np.empty((count, *sensor.spec.shape), sensor.dtype) for sensor in sensors]

    def fill(self, layout: Layout, rows: Rows, agents: Any) -> None:
        """Fill `rows` from a structured array of as many agents of one layout."""
        names = layout.names
        if "reward" in names:
            self.reward[rows] = agents["reward"]
        if "agent_id" in names:
            ids = agents["agent_id"]
            self.agent_id[rows] = ids[:, 0] if ids.shape[1] == 1 else ints(ids)
        if "done" in names:
            self.done[rows] = agents["done"][:, 0]
        if "interrupted" in names:
            self.interrupted[rows] = agents["interrupted"][:, 0]
        if "mask" in names:
            self.mask[rows] = agents["mask"]
        if "group_id" in names:
            self.group_id[rows] = ints(agents["group_id"])
        if "group_reward" in names:
            self.group_reward[rows] = agents["group_reward"]
        for index, sensor in enumerate(self._sensors):
            if sensor.channels_last and sensor.size:
                self.obs[index][rows] = sensor.first(agents[f"obs{index}"], -1)
            elif sensor.size:
                self.obs[index].reshape(len(self.done), sensor.size)[rows] = agents[f"obs{index}"]

    def fill_one(self, row: int, info: AgentInfoProto) -> None:
        """Fill one row from protobuf's own parser; raises ObservationError if an observation does not fit."""
        self.reward[row] = info.reward
        self.done[row] = info.done
        self.interrupted[row] = info.max_step_reached
        self.agent_id[row] = info.id
        self.group_id[row] = info.group_id
        self.group_reward[row] = info.group_reward
        if len(info.action_mask) == self.mask.shape[1]:
            self.mask[row] = info.action_mask
        if len(info.observations) != len(self._sensors):
            raise ObservationError(
                f"agent {info.id} sent {len(info.observations)} observations where the behavior's first "
                f"agent sent {len(self._sensors)}"
            )
        for index, sensor in enumerate(self._sensors):
            self._observe(row, index, sensor, info.observations[index], info.id)

    def _observe(
        self, row: int, index: int, sensor: SensorFormat, proto: ObservationProto, agent: int
    ) -> None:
        label = f"observation {index} ({sensor.spec.name!r}) of agent {agent}"
        shape = tuple(proto.shape)
        values = proto.float_data.data
        compressed = proto.compression_type != 0
        fits = shape == sensor.sent_shape if sensor.visual else not compressed and len(values) == sensor.size
        if not fits:
            raise ObservationError(
                f"{label} does not fit the behavior's specification: shape {sensor.sent_shape} was "
                f"expected, got shape {shape} with {len(values)} numbers"
            )
        out = self.obs[index][row, ...]  # an array, also of a single number
        if compressed:
            mapping = tuple(proto.compressed_channel_mapping)
            self.images.append(
                CompressedImage(proto.compressed_data, mapping, out, f"{self._where}: {label}")
            )
        elif len(values) != sensor.size:
            raise ObservationError(
                f"{label} has {len(values)} numbers where its shape {shape} needs {sensor.size}"
            )
        elif sensor.dtype == np.uint8:
            pixels = as_bytes(np.array(values, np.float32))
            if pixels is None:
                raise ObservationError(
                    f"{label} came as numbers that are no pixels / 255, where the behavior's first agent "
                    "sent a compressed picture. Give the sensors of all agents the same compression."
                )
            out[:] = sensor.first(pixels)
        else:
            out[...] = sensor.first(np.array(values, np.float32))


_COLUMNS = {
    "reward": ("reward", FIXED32),
    "done": ("done", VARINT),
    "max_step_reached": ("interrupted", VARINT),
    "id": ("agent_id", VARINT),
    "action_mask": ("mask", BYTES),
    "observations": ("observations", BYTES),
    "group_id": ("group_id", VARINT),
    "group_reward": ("group_reward", FIXED32),
}
"""The column of each field of an AgentInfoProto, and its wire type where the fast path reads it."""
_DESCRIBING = ("dimension_properties", "observation_type", "name")
"""The fields of an ObservationProto that all agents of a behavior have alike."""


class AgentReader:
    """Reads the agents of one behavior, message after message."""

    def __init__(self, behavior: BehaviorFormat, where: str, dialect: Dialect = UNITY) -> None:
        """`where`: names the engine and the behavior in errors."""
        self._where = where
        self._info_class = dialect.messages.AgentInfoProto
        numbers = dialect.numbers("AgentInfoProto")
        self._by_number = {numbers[field]: column for field, column in _COLUMNS.items()}
        observation = dialect.numbers("ObservationProto")
        self._shape, self._floats = observation["shape"], observation["float_data"]
        self._describing = frozenset(observation[field] for field in _DESCRIBING)
        self._sensors = behavior.sensors
        self._compressed = behavior.compressed
        self._branches = behavior.spec.action_spec.discrete_branches
        self._layouts = Layouts(self._layout)
        ends = np.cumsum(self._branches).tolist()
        self._mask_places = [slice(end - size, end) for end, size in zip(ends, self._branches)]
        self._mask_size: int = sum(self._branches)
        empty = self.columns(0)
        self.no_steps: BehaviorSteps = (
            self._decisions(empty, empty.done),
            self._terminals(empty, empty.done),
        )
        """The steps of a message without agents of this behavior."""

    def read(self, data: bytes, start: int, stop: int) -> AgentColumns:
        """The agents of the list in data[start:stop]; their images are still to be decoded.

        Raises:
            Malformed: The bytes are not a list of agents.
            ObservationError: An observation does not fit its specification.
        """
        starts, lengths = records(data, start, stop)
        self._check_size(len(starts), stop - start)
        columns = self.columns(len(starts))
        if self._compressed:
            grouped = GroupedAgents([], list(range(len(starts))))
        else:
            grouped = self._layouts.group(data, starts, lengths) if len(starts) else GroupedAgents()
        for layout, which, agents in grouped.groups:
            columns.fill(layout, which, agents)
        columns.runs = None
        if not grouped.unknown and len(grouped.groups) <= MOST_RUNS:
            columns.runs = [Run.of(layout, which, starts) for layout, which, _ in grouped.groups]
        for row in grouped.unknown:
            columns.fill_one(row, self.parse(data, int(starts[row]), int(lengths[row])))
        return columns

    def _check_size(self, agents: int, length: int) -> None:
        """Refuse observations that `length` bytes cannot hold, before memory is allocated for them."""
        numbers = agents * sum(sensor.size for sensor in self._sensors)
        if numbers > MOST_PIXELS and 4 * numbers > length:
            raise ObservationError(
                f"{self._where}: {agents} agents in {length} bytes announce {numbers} numbers and "
                f"pixels, and at most {MOST_PIXELS} may be compressed in one message: use smaller "
                "pictures, or fewer agents"
            )

    def parse(self, data: bytes, start: int, length: int) -> AgentInfoProto:
        """The agent in data[start:start + length], by protobuf. Raises Malformed when it is none."""
        try:
            return self._info_class.FromString(data[start : start + length])
        except UNREADABLE as error:
            raise Malformed(start, f"an agent that protobuf cannot parse ({error})") from error

    def read_runs(self, data: bytes, runs: Sequence[Run], count: int) -> BehaviorSteps:
        """The steps of `count` agents, which are those of all runs."""
        columns = AgentColumns(count, self._sensors, self._mask_size, self._where)
        for run in runs:
            columns.fill(run.layout, run.which, run.rows(data).view(run.layout.dtype)[:, 0])
        return self.split(columns)

    def columns(self, count: int) -> AgentColumns:
        """Columns for `count` agents, to be filled."""
        return AgentColumns(count, self._sensors, self._mask_size, self._where)

    def split(self, columns: AgentColumns) -> BehaviorSteps:
        """The agents that request a decision, and those that are done."""
        if not columns.done.any():
            if not len(columns.done):
                return self.no_steps
            mask = None
            if self._mask_places:
                mask = [columns.mask[:, place] for place in self._mask_places]
            return (
                DecisionSteps(
                    columns.obs,
                    columns.reward,
                    columns.agent_id,
                    mask,
                    columns.group_id,
                    columns.group_reward,
                ),
                self.no_steps[1],
            )
        return self._decisions(columns, ~columns.done), self._terminals(columns, columns.done)

    def _decisions(self, columns: AgentColumns, rows: NDArray[np.bool_]) -> DecisionSteps:
        agent_id = columns.agent_id[rows]
        mask = None
        if self._mask_places and len(agent_id):
            flat = columns.mask[rows]
            mask = [flat[:, place] for place in self._mask_places]
        obs = [values[rows] for values in columns.obs]
        return DecisionSteps(
            obs, columns.reward[rows], agent_id, mask, columns.group_id[rows], columns.group_reward[rows]
        )

    def _terminals(self, columns: AgentColumns, rows: NDArray[np.bool_]) -> TerminalSteps:
        return TerminalSteps(
            [values[rows] for values in columns.obs],
            columns.reward[rows],
            columns.interrupted[rows],
            columns.agent_id[rows],
            columns.group_id[rows],
            columns.group_reward[rows],
        )

    def _layout(self, data: bytes, start: int, stop: int) -> Layout:
        """The layout of the AgentInfoProto in data[start:stop]; raises UnknownLayout where there is none."""
        builder = LayoutBuilder(data, start, stop)
        self.describe(builder, data, start, stop)
        return builder.build()

    def describe(self, builder: LayoutBuilder, data: bytes, start: int, stop: int) -> None:
        """Add the AgentInfoProto in data[start:stop] to a layout; the names are those of `AgentColumns`.

        Raises:
            UnknownLayout: Protobuf has to read it.
            Malformed: It is not a message.
        """
        seen: set[int] = set()
        sensors = iter(self._sensors)
        index = 0
        for number, wire, at, end in fields(data, start, stop):
            column, expected = self._by_number.get(number, ("", None))
            if wire != expected or (number in seen and column != "observations"):
                raise UnknownLayout
            seen.add(number)
            if column == "observations":
                self._observe(builder, data, at, end, index, next(sensors, None))
                index += 1
            elif column in ("reward", "group_reward"):
                builder.number(column, at, end, FLOAT)
            elif column in ("done", "interrupted"):
                builder.varint(column, at, end, 1)
            elif column in ("agent_id", "group_id"):
                builder.varint(column, at, end)
            else:  # a mask of another length is ignored
                builder.varint("mask" if end - at == self._mask_size > 0 else None, at, end, end - at)
        if index != len(self._sensors):
            raise UnknownLayout

    def _observe(
        self,
        builder: LayoutBuilder,
        data: bytes,
        start: int,
        stop: int,
        index: int,
        sensor: SensorFormat | None,
    ) -> None:
        """Add the ObservationProto in data[start:stop], which must be of floats and of the sensor's shape."""
        floats = shape = None
        for number, wire, at, end in fields(data, start, stop):
            if number == self._floats and wire == BYTES and floats is None:
                floats = next(fields(data, at, end), (1, BYTES, end, end))
                if floats[:2] != (1, BYTES) or floats[3] != end:
                    raise UnknownLayout
            elif number == self._shape and wire == BYTES and shape is None:
                shape = packed_ints(data, at, end)
            elif number not in self._describing:
                raise UnknownLayout
        at, end = floats[2:] if floats is not None else (stop, stop)
        if sensor is None or end - at != 4 * sensor.size or (sensor.visual and shape != sensor.sent_shape):
            raise UnknownLayout
        if sensor.size:
            builder.number(f"obs{index}", at, end, (FLOAT, (sensor.size,)))
