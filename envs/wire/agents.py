"""From the agents of one behaviour, as they lie in a message, to DecisionSteps and TerminalSteps."""

import numpy as np
from mlagents_envs.base_env import DecisionSteps, TerminalSteps

from ..steps import BehaviorSteps
from .columns import Columns
from .layout import Layout, LayoutBuilder, Layouts, Rows, Sorted
from .scan import BYTES, FIXED32, VARINT, Irregular, fields, packed_ints, records
from .specs import Behavior, Sensor

_FLOAT = np.dtype("<f4")
_WIRE = {7: FIXED32, 8: VARINT, 9: VARINT, 10: VARINT, 11: BYTES, 13: BYTES, 14: VARINT, 15: FIXED32}
_FLOATS = {7: "reward", 15: "group_reward"}
_FLAGS = {8: "done", 9: "interrupted"}
_INTS = {10: "agent_id", 14: "group_id"}


class AgentReader:
    """Reads the agents of one behaviour, message after message."""

    def __init__(self, behavior: Behavior, where: str) -> None:
        """`where`: what errors call the engine and the behaviour."""
        self._where = where
        self._sensors = behavior.sensors
        self._compressed = behavior.compressed
        self._branches = behavior.spec.action_spec.discrete_branches
        self._layouts = Layouts(self._layout)
        ends = np.cumsum(self._branches).tolist()
        self._mask_places = [slice(end - size, end) for end, size in zip(ends, self._branches)]
        self._mask_size: int = sum(self._branches)

    def read(self, data: bytes, start: int, stop: int) -> Columns:
        """The agents in data[start:stop], the content of a list of them; pictures are still to be decoded.

        Raises:
            Malformed, ObservationError: As the names say.
        """
        starts, lengths = records(data, start, stop)
        columns = self.columns(len(starts))
        if self._compressed:
            sorted_ = Sorted([], list(range(len(starts))))
        else:
            sorted_ = self._layouts.sort(data, starts, lengths) if len(starts) else Sorted()
        for layout, which, agents in sorted_.groups:
            columns.fill(layout, which, agents)
        for row in sorted_.irregular:
            columns.fill_one(row, data, int(starts[row]), int(lengths[row]))
        return columns

    def nobody(self) -> Columns:
        """A behaviour without agents in a message."""
        return self.columns(0)

    def columns(self, count: int) -> Columns:
        """Columns for so many agents, to be filled."""
        return Columns(count, self._sensors, self._mask_size, self._where)

    def split(self, columns: Columns) -> BehaviorSteps:
        """Those who ask for a decision, and those who are done."""
        if not columns.done.any():
            everyone, nobody = slice(None), slice(0)
            return self._decisions(columns, everyone), self._terminals(columns, nobody)
        return self._decisions(columns, np.flatnonzero(~columns.done)), self._terminals(
            columns, np.flatnonzero(columns.done)
        )

    def _decisions(self, columns: Columns, rows: Rows) -> DecisionSteps:
        agent_id = columns.agent_id[rows]
        mask = None
        if self._mask_places and len(agent_id):
            flat = columns.mask[rows]
            mask = [flat[:, place] for place in self._mask_places]
        obs = [values[rows] for values in columns.obs]
        return DecisionSteps(
            obs, columns.reward[rows], agent_id, mask, columns.group_id[rows], columns.group_reward[rows]
        )

    def _terminals(self, columns: Columns, rows: Rows) -> TerminalSteps:
        return TerminalSteps(
            [values[rows] for values in columns.obs],
            columns.reward[rows],
            columns.interrupted[rows],
            columns.agent_id[rows],
            columns.group_id[rows],
            columns.group_reward[rows],
        )

    def _layout(self, data: bytes, start: int, stop: int) -> Layout:
        """The layout of the AgentInfoProto in data[start:stop]. Raises Irregular where there can be none."""
        builder = LayoutBuilder(data, start, stop)
        self.describe(builder, data, start, stop)
        return builder.build()

    def describe(self, builder: LayoutBuilder, data: bytes, start: int, stop: int) -> None:
        """Add the AgentInfoProto in data[start:stop] to a layout; the names are those of `Columns`.

        Raises:
            Irregular: it has to be read by protobuf.
            Malformed: it is no message.
        """
        seen: set[int] = set()
        sensors = iter(self._sensors)
        index = 0
        for number, wire, at, end in fields(data, start, stop):
            if _WIRE.get(number) != wire or (number in seen and number != 13):
                raise Irregular
            seen.add(number)
            if number == 13:
                _observe(builder, data, at, end, index, next(sensors, None))
                index += 1
            elif number in _FLOATS:
                builder.number(_FLOATS[number], at, end, _FLOAT)
            elif number in _FLAGS:
                builder.varint(_FLAGS[number], at, end, 1)
            elif number in _INTS:
                builder.varint(_INTS[number], at, end)
            else:  # a mask of another length is as good as none
                builder.varint("mask" if end - at == self._mask_size > 0 else None, at, end, end - at)
        if index != len(self._sensors):
            raise Irregular


def _observe(
    builder: LayoutBuilder, data: bytes, start: int, stop: int, index: int, sensor: Sensor | None
) -> None:
    """Adds the ObservationProto in data[start:stop], which must be of floats and of the sensor's shape."""
    floats = shape = None
    for number, wire, at, end in fields(data, start, stop):
        if number == 4 and wire == BYTES and floats is None:
            floats = next(fields(data, at, end), (1, BYTES, end, end))
            if floats[:2] != (1, BYTES) or floats[3] != end:
                raise Irregular
        elif number == 1 and wire == BYTES and shape is None:
            shape = packed_ints(data, at, end)
        elif number not in (6, 7, 8):
            raise Irregular
    at, end = floats[2:] if floats is not None else (stop, stop)
    if sensor is None or end - at != 4 * sensor.size or (sensor.visual and shape != sensor.sent_shape):
        raise Irregular
    if sensor.size:
        builder.number(f"obs{index}", at, end, (_FLOAT, (sensor.size,)))
