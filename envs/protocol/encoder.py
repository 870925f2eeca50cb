"""The trainer's answers to an engine, as complete UnityMessageProto bytes."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from mlagents_envs.base_env import ActionTuple

from .handshake import API_VERSION, PACKAGE_VERSION, Capabilities
from .layout import BYTE, FLOAT, Piece, RowWriter
from .messages import UnityInputProto, UnityRLInitializationInputProto
from .wire_format import HEADER_OK, HEADER_STOP, delimited, head, varints, width

_RESET = bytes.fromhex("2001")  # UnityRLInputProto.command


def encode_actions(
    actions: Mapping[str, ActionTuple], side_channel: bytes, deprecated_field: bool = False
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
        start, writer = _action_writer(name, count, continuous.shape[1], branches, digits, deprecated_field)
        columns = {"continuous": continuous}
        if branches:
            columns["discrete"] = varints(discrete, digits).reshape(count, branches * digits)
        if deprecated_field:
            columns["deprecated"] = np.concatenate([continuous, discrete.astype(np.float32)], axis=1)
        content += start + writer.write(count, columns).tobytes()
    if side_channel:
        content += delimited(5, side_channel)
    return _header(len(content)) + content


def encode_reset(side_channel: bytes) -> bytes:
    """The message that makes the engine start new episodes everywhere."""
    content = _RESET + (delimited(5, side_channel) if side_channel else b"")
    return _header(len(content)) + content


def encode_quit() -> bytes:
    """The message that makes the engine exit."""
    return HEADER_STOP


def encode_initialization(seed: int, num_areas: int) -> bytes:
    """The trainer's half of the handshake. Raises ValueError when a number does not fit int32."""
    proto = UnityRLInitializationInputProto(
        seed=seed,
        communication_version=API_VERSION,
        package_version=PACKAGE_VERSION,
        capabilities=Capabilities().proto(),
        num_areas=num_areas,
    )
    return HEADER_OK + delimited(3, UnityInputProto(rl_initialization_input=proto).SerializeToString())


@lru_cache(maxsize=64)
def _header(length: int) -> bytes:
    """The bytes before a UnityRLInputProto of this length."""
    inner = head(1, length)
    return HEADER_OK + head(3, len(inner) + length) + inner


@lru_cache(maxsize=256)
def _action_writer(
    name: str, count: int, continuous: int, branches: int, digits: int, deprecated: bool
) -> tuple[bytes, RowWriter]:
    """How one behavior's actions are written: the bytes before them, and the writer of their records.

    The records are AgentActionProtos with this many actions, each discrete one of `digits` bytes.
    """
    fields: list[tuple[int, str, Any, int]] = [
        (1, "deprecated", FLOAT, continuous + branches if deprecated else 0),
        (6, "continuous", FLOAT, continuous),
        (7, "discrete", BYTE, branches * digits),
    ]
    pieces = [
        Piece(head(number, size * dtype.itemsize), field, dtype, size)
        for number, field, dtype, size in fields
        if size
    ]
    size = sum(len(piece.head) + piece.count * piece.dtype.itemsize for piece in pieces)
    record = head(1, size)
    key, length = delimited(1, name.encode()), count * (len(record) + size)
    entry = key + head(2, length)
    return head(1, len(entry) + length) + entry, RowWriter(pieces, record)
