"""What the trainer answers an engine: complete UnityMessageProto bytes."""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from mlagents_envs.base_env import ActionTuple
from numpy.typing import NDArray

from .hello import Capabilities
from .messages import UnityInputProto, UnityRLInitializationInputProto
from .versions import API_VERSION, PACKAGE_VERSION
from .write import HEADER_OK, HEADER_STOP, delimited, varints, width

_RESET = bytes.fromhex("2001")  # UnityRLInputProto.command
_FLOAT = np.dtype("<f4")


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
    """ListAgentActionProto: every record has the same layout, so that columns are written at once."""
    count, branches = discrete.shape
    digits = width(discrete)
    template, dtype = _record(continuous.shape[1], branches, digits, deprecated)
    rows = np.empty((count, len(template)), np.uint8)
    rows[:] = template
    records = rows.view(dtype)[:, 0]
    if continuous.shape[1]:
        records["continuous"] = continuous
    if branches:
        records["discrete"] = varints(discrete, digits).reshape(count, -1)
    if deprecated and "deprecated" in dtype.names:
        records["deprecated"] = np.concatenate([continuous, discrete.astype(np.float32)], axis=1)
    return rows.tobytes()


@lru_cache(maxsize=64)
def _record(
    continuous: int, branches: int, digits: int, deprecated: bool
) -> tuple[NDArray[np.uint8], "np.dtype[np.void]"]:
    """One AgentActionProto as an element of its list: its bytes with zeros for numbers, and the numbers' places."""
    parts = {
        "deprecated": (1, _FLOAT, (continuous + branches) if deprecated else 0),
        "continuous": (6, _FLOAT, continuous),
        "discrete": (7, np.dtype(np.uint8), branches * digits),
    }
    content = b""
    places = {}
    for name, (number, dtype, count) in parts.items():
        if count:
            content += delimited(number, bytes(count * dtype.itemsize))
            places[name] = ((dtype, (count,)), len(content) - count * dtype.itemsize)
    record = delimited(1, content)
    ahead = len(record) - len(content)
    dtype = np.dtype(
        {
            "names": list(places),
            "formats": [dtype for dtype, _ in places.values()],
            "offsets": [offset + ahead for _, offset in places.values()],
            "itemsize": len(record),
        }
    )
    return np.frombuffer(record, np.uint8), dtype
