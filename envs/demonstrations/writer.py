"""Writes `.demo` files for Unity, ML-Agents and this package."""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType

import numpy as np
from mlagents_envs.base_env import ActionTuple, BehaviorSpec
from numpy.typing import NDArray

from ..protocol.engine import AgentBatch, AgentWriter
from ..protocol.layout import FLOAT, Piece, RowWriter
from ..protocol.messages import ActionSpecProto, BrainParametersProto, DemonstrationMetaProto
from ..protocol.wire_format import encode_varint as varint
from ..protocol.wire_format import head, records, varints, width
from .format import HEADER

VERSION = 1
MAX_NAME = 16
"""Unity's recorder truncates names to this, as they must fit into the header with the rest."""


class DemonstrationWriter:
    """Writes one file, episode by episode.

    The metadata are written on close. Until then they are empty, which readers take for a file of unknown
    length: the file of a process that was killed is readable.
    """

    def __init__(self, path: str | Path, behavior: str, spec: BehaviorSpec, name: str | None = None) -> None:
        """Start a new file.

        Args:
            path: The file, which must not exist; its folder is created.
            behavior: The behavior's full name, such as `3DBall?team=0`.
            spec: The behavior's specification.
            name: The demonstration's name, by default the file's. It is truncated to fit into the header.

        Raises:
            FileExistsError: The file exists.
            OSError: It cannot be written.
        """
        self.path = Path(path)
        self.spec = spec
        self.name = name or self.path.stem
        self.steps = 0
        self.episodes = 0
        self.total_reward = 0.0
        self._agents = AgentWriter(behavior, spec)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("xb")
        self._file.write(bytes(HEADER) + _delimited(_brain(behavior, spec)))

    def __enter__(self) -> DemonstrationWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, agents: AgentBatch, action: ActionTuple) -> None:
        """Append pairs, usually one agent's episode, in the order of its decisions.

        Args:
            agents: Its reports, [n], with `done` in an episode's last pair. Images of bytes become PNG.
            action: The actions that followed, [n], as sent to the engine.

        Raises:
            ValueError: An array has the wrong shape.
            OSError: The disk is full.
        """
        self._file.write(encode_pairs(self._agents, agents, action))
        self._file.flush()
        self.steps += len(agents.agent_id)
        self.episodes += int(np.count_nonzero(agents.done))
        self.total_reward += float(agents.reward.sum(dtype=np.float64))

    def close(self) -> None:
        """Write the metadata and close the file; does nothing if it is closed."""
        if self._file.closed:
            return
        with self._file:
            self._file.seek(0)
            self._file.write(_header(self.name, self.steps, self.episodes, self.total_reward))


def encode_pairs(writer: AgentWriter, agents: AgentBatch, action: ActionTuple) -> bytes:
    """Encode pairs, each preceded by its length.

    Raises:
        ValueError: An array has the wrong shape.
    """
    count = len(agents.agent_id)
    shapes = (len(action.continuous), len(action.discrete))
    if shapes != (count, count):
        raise ValueError(f"{count} reports with {shapes[0]} continuous and {shapes[1]} discrete actions.")
    reports = writer.write(agents)
    starts, lengths = records(reports, 0, len(reports))
    actions = _encode_actions(action)
    parts = []
    at = 0
    for start, length, row in zip(starts.tolist(), lengths.tolist(), actions):
        report = reports[at : start + length]  # with its tag and length: field 1 of a list, and of a pair
        at = start + length
        parts += [varint(len(report) + len(row)), report, row]
    return b"".join(parts)


def encode_meta(name: str, steps: int, episodes: int, mean_reward: float) -> bytes:
    """Encode metadata, with the name truncated to fit into the header."""
    name = re.sub(r"[^a-zA-Z0-9 -]", "", name)[:MAX_NAME]
    while True:
        meta = DemonstrationMetaProto(
            api_version=VERSION,
            demonstration_name=name,
            number_steps=steps,
            number_episodes=episodes,
            mean_reward=mean_reward,
        )
        data: bytes = _delimited(meta.SerializeToString())
        if len(data) <= HEADER:
            return data
        name = name[:-1]


def _header(name: str, steps: int, episodes: int, total_reward: float) -> bytes:
    return encode_meta(name, steps, episodes, total_reward / max(episodes, 1)).ljust(HEADER, b"\0")


def _delimited(content: bytes) -> bytes:
    return varint(len(content)) + content


def _brain(behavior: str, spec: BehaviorSpec) -> bytes:
    actions = spec.action_spec
    proto = ActionSpecProto(
        num_continuous_actions=actions.continuous_size,
        num_discrete_actions=actions.discrete_size,
        discrete_branch_sizes=actions.discrete_branches,
    )
    brain = BrainParametersProto(brain_name=behavior, is_training=True, action_spec=proto)
    data: bytes = brain.SerializeToString()
    return data


def _encode_actions(action: ActionTuple) -> list[bytes]:
    """Field 2 of each pair: the actions, also in the old field, where ML-Agents expects previous ones."""
    continuous = np.asarray(action.continuous, np.float32)
    discrete = np.asarray(action.discrete, np.int32)
    columns: dict[str, NDArray[np.generic]] = {
        "old": np.concatenate([continuous, discrete.astype(np.float32)], axis=1),
        "continuous": continuous,
        "discrete": varints(discrete, width(discrete)).reshape(len(discrete), -1),
    }
    pieces = [
        Piece(
            head(number, columns[name].shape[1] * columns[name].itemsize), name, dtype, columns[name].shape[1]
        )
        for number, name, dtype in (
            (1, "old", FLOAT),
            (6, "continuous", FLOAT),
            (7, "discrete", np.dtype(np.uint8)),
        )
        if columns[name].shape[1]
    ]
    size = sum(len(piece.head) + piece.count * piece.dtype.itemsize for piece in pieces)
    table = RowWriter(pieces, head(2, size)).write(len(continuous), columns).tobytes()
    step = len(table) // max(len(continuous), 1)
    return [table[at : at + step] for at in range(0, len(table), step)] if step else []
