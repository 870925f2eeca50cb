"""The agents of one behaviour on their way from an engine: arrays to bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from mlagents_envs.base_env import BehaviorSpec, ObservationSpec
from numpy.typing import NDArray

from .messages import ObservationProto
from .png_writer import FAST, encode_pictures
from .records import BYTE, FLOAT, Piece, RecordWriter, RowWriter
from .write import delimited, head, varints, width

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
    """The n agents of one behaviour that report at a step: they ask for a decision, or they are done.

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
    """Writes the agents of one behaviour as a list of AgentInfoProto, columns at once."""

    def __init__(self, name: str, spec: BehaviorSpec, level: int = FAST) -> None:
        """`name`: of the behaviour, for messages; `level`: as of `encode_pictures`."""
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
    grey = compression == _PNG and len(observation.shape) == 3 and observation.shape[0] == 1
    return ObservationProto(
        shape=observation.shape,
        compression_type=compression,
        compressed_channel_mapping=_GREY if grey else (),
        dimension_properties=[int(value) for value in observation.dimension_property],
        observation_type=observation.observation_type.value,
        name=observation.name,
    ).SerializeToString()


def _rows(table: NDArray[np.uint8]) -> list[bytes]:
    data, size = table.tobytes(), table.shape[1]
    return [data[at : at + size] for at in range(0, len(data), size)] if size else [b""] * len(table)
