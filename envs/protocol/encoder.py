"""What the trainer answers an engine: complete UnityMessageProto bytes."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from mlagents_envs.base_env import ActionTuple
from numpy.typing import NDArray

from .handshake import API_VERSION, PACKAGE_VERSION, Capabilities
from .layout import BYTE, FLOAT, Piece, RecordWriter
from .messages import UnityInputProto, UnityRLInitializationInputProto
from .wire_format import HEADER_OK, HEADER_STOP, delimited, head, varints, width

_RESET = bytes.fromhex("2001")  # UnityRLInputProto.command


def encode_actions(
    spec_order: Mapping[str, ActionTuple], side_channel: bytes, deprecated_field: bool = False
) -> bytes:
    """Tells the engine to step.

    Args:
        spec_order: For each behaviour the actions of the n agents of its last DecisionSteps, in their
            order: continuous [n, A] and discrete [n, K]. Behaviours without agents may be among them.
        side_channel: Messages for the side channels, framed.
        deprecated_field: Repeat the actions in the field that engines without hybrid actions read.
    """
    parts = []
    for name, actions in spec_order.items():
        if len(actions.continuous):
            listed = _action_list(actions.continuous, actions.discrete, deprecated_field)
            parts.append(delimited(1, delimited(1, name.encode()) + delimited(2, listed)))
    return _input(b"".join(parts) + _side_channel(side_channel))


def encode_reset(side_channel: bytes) -> bytes:
    """Tells the engine to begin new episodes everywhere."""
    return _input(_RESET + _side_channel(side_channel))


def encode_quit() -> bytes:
    """Tells the engine to exit."""
    return HEADER_STOP


def encode_initialization(seed: int, num_areas: int) -> bytes:
    """The trainer's half of the handshake. Raises ValueError when a number is no int32."""
    proto = UnityRLInitializationInputProto(
        seed=seed,
        communication_version=API_VERSION,
        package_version=PACKAGE_VERSION,
        capabilities=Capabilities().proto(),
        num_areas=num_areas,
    )
    return HEADER_OK + delimited(3, UnityInputProto(rl_initialization_input=proto).SerializeToString())


def _input(content: bytes) -> bytes:
    """A whole message around the content of a UnityRLInputProto."""
    return HEADER_OK + delimited(3, delimited(1, content))


def _side_channel(data: bytes) -> bytes:
    return delimited(5, data) if data else b""


def _action_list(continuous: NDArray[np.float32], discrete: NDArray[np.int32], deprecated: bool) -> bytes:
    """The content of a ListAgentActionProto."""
    count, branches = discrete.shape
    digits = width(discrete)
    columns: dict[str, NDArray[Any]] = {
        "continuous": continuous,
        "discrete": varints(discrete, digits).reshape(count, branches * digits),
    }
    if deprecated:
        columns["deprecated"] = np.concatenate([continuous, discrete.astype(np.float32)], axis=1)
    return _action_writer(continuous.shape[1], branches, digits, deprecated).write(count, columns)


@lru_cache(maxsize=64)
def _action_writer(continuous: int, branches: int, digits: int, deprecated: bool) -> RecordWriter:
    """Writes AgentActionProtos with so many actions, the discrete ones of so many bytes each."""
    fields: list[tuple[int, str, Any, int]] = [
        (1, "deprecated", FLOAT, continuous + branches if deprecated else 0),
        (6, "continuous", FLOAT, continuous),
        (7, "discrete", BYTE, branches * digits),
    ]
    return RecordWriter(
        [
            Piece(head(number, count * dtype.itemsize), name, dtype, count)
            for number, name, dtype, count in fields
            if count
        ]
    )
