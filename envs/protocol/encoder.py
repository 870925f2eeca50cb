"""The trainer's answers to an engine, as complete UnityMessageProto bytes."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from mlagents_envs.base_env import ActionTuple

from .dialect import UNITY, Dialect
from .handshake import Capabilities
from .layout import BYTE, FLOAT, Piece, RowWriter
from .wire_format import HEADER_OK, HEADER_STOP, VARINT, delimited, head, tag, varints, width

_RESET = 1  # CommandProto.RESET


class Encoder:
    """Writes the answers in one dialect."""

    def __init__(self, dialect: Dialect = UNITY) -> None:
        self._dialect = dialect
        numbers = dialect.numbers("UnityRLInputProto")
        self._side_channel = numbers["side_channel"]
        self._actions = numbers["agent_actions"]
        self._reset = tag(numbers["command"], VARINT) + bytes([_RESET])
        self._fields = dialect.numbers("AgentActionProto")
        self._action_writer = lru_cache(maxsize=256)(self._make_action_writer)

    def actions(
        self, actions: Mapping[str, ActionTuple], side_channel: bytes, deprecated_field: bool = False
    ) -> bytes:
        """The message that makes the engine step.

        Args:
            actions: For each behavior the actions of the n agents of its last DecisionSteps, in their
                order: continuous [n, A] and discrete [n, K]. Behaviors without agents may be among them.
            side_channel: Messages for the side channels, framed.
            deprecated_field: Repeat the actions in the field that engines without hybrid actions read.
        """
        content = b""
        for name, action in actions.items():
            continuous, discrete = action.continuous, action.discrete
            count, branches = discrete.shape
            if not count:
                continue
            digits = width(discrete) if branches else 1
            start, writer = self._action_writer(
                name, count, continuous.shape[1], branches, digits, deprecated_field
            )
            columns = {"continuous": continuous}
            if branches:
                columns["discrete"] = varints(discrete, digits).reshape(count, branches * digits)
            if deprecated_field:
                columns["deprecated"] = np.concatenate([continuous, discrete.astype(np.float32)], axis=1)
            content += start + writer.write(count, columns).tobytes()
        if side_channel:
            content += delimited(self._side_channel, side_channel)
        return _header(len(content)) + content

    def reset(self, side_channel: bytes, behaviors: Iterable[str] = ()) -> bytes:
        """The message that makes the engine start new episodes everywhere.

        Args:
            side_channel: Messages for the side channels, framed.
            behaviors: All that the engine has described.
        """
        content = b""
        if self._dialect.names_behaviors_in_resets:
            for name in behaviors:
                content += delimited(self._actions, delimited(1, name.encode()) + head(2, 0))
        content += self._reset
        if side_channel:
            content += delimited(self._side_channel, side_channel)
        return _header(len(content)) + content

    def initialization(self, seed: int, num_areas: int) -> bytes:
        """The trainer's half of the handshake. Raises ValueError when a number does not fit int32."""
        proto = self._dialect.make(
            "UnityRLInitializationInputProto",
            seed=seed,
            communication_version=self._dialect.api_version,
            package_version=self._dialect.package_version,
            capabilities=Capabilities().proto(),
            num_areas=num_areas,
        )
        answer = self._dialect.messages.UnityInputProto(rl_initialization_input=proto)
        return HEADER_OK + delimited(3, answer.SerializeToString())

    def _make_action_writer(
        self, name: str, count: int, continuous: int, branches: int, digits: int, deprecated: bool
    ) -> tuple[bytes, RowWriter]:
        """How one behavior's actions are written: the bytes before them, and the writer of their records.

        The records are AgentActionProtos with this many actions, each discrete one of `digits` bytes.
        """
        columns: list[tuple[str, str, Any, int]] = [
            ("vector_actions_deprecated", "deprecated", FLOAT, continuous + branches if deprecated else 0),
            ("continuous_actions", "continuous", FLOAT, continuous),
            ("discrete_actions", "discrete", BYTE, branches * digits),
        ]
        pieces = [
            Piece(head(self._fields[field], size * dtype.itemsize), column, dtype, size)
            for field, column, dtype, size in columns
            if size
        ]
        size = sum(len(piece.head) + piece.count * piece.dtype.itemsize for piece in pieces)
        record = head(1, size)
        key, length = delimited(1, name.encode()), count * (len(record) + size)
        entry = key + head(2, length)
        return head(self._actions, len(entry) + length) + entry, RowWriter(pieces, record)


def encode_quit() -> bytes:
    """The message that makes the engine exit, in every dialect."""
    return HEADER_STOP


@lru_cache(maxsize=64)
def _header(length: int) -> bytes:
    """The bytes before a UnityRLInputProto of this length."""
    inner = head(1, length)
    return HEADER_OK + head(3, len(inner) + length) + inner
