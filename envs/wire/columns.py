"""What the agents of one behaviour reported in one message, as columns."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from ..pixels import as_bytes
from ..steps import ObsArray
from .errors import ObservationError
from .images import Picture
from .layout import Layout, Rows, ints
from .messages import AgentInfoProto, ObservationProto
from .scan import Malformed
from .specs import Sensor


class Columns:
    """One row for each of n agents, in the message's order; what the engine left out is zero."""

    def __init__(self, count: int, sensors: Sequence[Sensor], mask_size: int, where: str) -> None:
        """`where`: what errors call the engine and the behaviour."""
        self._sensors = sensors
        self._where = where
        self.pictures: list[Picture] = []
        """To be decoded into the rows that they belong to."""
        self.reward = np.zeros(count, np.float32)
        self.done = np.zeros(count, np.bool_)
        self.interrupted = np.zeros(count, np.bool_)
        self.agent_id = np.zeros(count, np.int32)
        self.group_id = np.zeros(count, np.int32)
        self.group_reward = np.zeros(count, np.float32)
        self.mask = np.zeros((count, mask_size), np.bool_)
        """[n, sum of the branches' sizes], True where an action is not allowed."""
        self.obs: list[ObsArray] = [np.empty((count, *sensor.spec.shape), sensor.dtype) for sensor in sensors]

    def fill(self, layout: Layout, rows: Rows, agents: Any) -> None:
        """Fills rows from agents of one layout: a structured array of as many."""
        names = layout.names
        if "reward" in names:
            self.reward[rows] = agents["reward"]
        if "agent_id" in names:
            self.agent_id[rows] = ints(agents["agent_id"])
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
            if sensor.size:
                self._fill_observation(index, sensor, rows, agents[f"obs{index}"])

    def _fill_observation(self, index: int, sensor: Sensor, rows: Rows, values: Any) -> None:
        obs = self.obs[index]
        if sensor.channels_last:
            obs[rows] = sensor.first(values, -1)
        else:
            obs.reshape(len(obs), sensor.size)[rows] = values

    def fill_one(self, row: int, data: bytes, start: int, length: int) -> None:
        """Fills one row by protobuf's own parser.

        Raises:
            Malformed: data[start:start + length] is no AgentInfoProto.
            ObservationError: An observation does not fit its specification.
        """
        try:
            info = AgentInfoProto.FromString(data[start : start + length])
        except DecodeError as error:
            raise Malformed(start, f"an agent that protobuf cannot parse ({error})") from error
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
                f"agent {info.id} sent {len(info.observations)} observations where the behaviour's first "
                f"agent sent {len(self._sensors)}"
            )
        for index, sensor in enumerate(self._sensors):
            self._observe(row, index, sensor, info.observations[index], info.id)

    def _observe(self, row: int, index: int, sensor: Sensor, proto: ObservationProto, agent: int) -> None:
        label = f"observation {index} ({sensor.spec.name!r}) of agent {agent}"
        shape = tuple(proto.shape)
        values = proto.float_data.data
        compressed = proto.compression_type != 0
        fits = shape == sensor.sent_shape if sensor.visual else not compressed and len(values) == sensor.size
        if not fits:
            raise ObservationError(
                f"{label} does not fit the behaviour's specification: shape {sensor.sent_shape} was "
                f"expected, got shape {shape} with {len(values)} numbers"
            )
        out = self.obs[index][row]
        if compressed:
            mapping = tuple(proto.compressed_channel_mapping)
            self.pictures.append(Picture(proto.compressed_data, mapping, out, f"{self._where}: {label}"))
        elif len(values) != sensor.size:
            raise ObservationError(
                f"{label} has {len(values)} numbers where its shape {shape} needs {sensor.size}"
            )
        elif sensor.dtype == np.uint8:
            pixels = as_bytes(np.array(values, np.float32))
            if pixels is None:
                raise ObservationError(
                    f"{label} came as numbers that are no pixels / 255, where the behaviour's first agent "
                    "sent a compressed picture. Give the sensors of all agents the same compression."
                )
            out[:] = sensor.first(pixels)
        else:
            out[:] = sensor.first(np.array(values, np.float32))
