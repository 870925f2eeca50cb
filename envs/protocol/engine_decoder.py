"""The engine's side of the protocol in Python, which decodes the trainer's answers to arrays."""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import WireError
from .dialect import UNITY, UNREADABLE, Dialect
from .layout import FLOAT, Layout, LayoutBuilder, Layouts, ints
from .messages import UnityMessageProto, UnityRLInputProto
from .wire_format import (
    BYTES,
    FIXED32,
    NOWHERE,
    VARINT,
    Malformed,
    UnknownLayout,
    fields,
    parts,
    records,
    text,
    varint,
)

Actions = tuple[NDArray[np.float32], NDArray[np.int32]]
_OK, _RESET, _QUIT = 200, 1, 2


@dataclass(frozen=True, slots=True)
class TrainerReply:
    """The trainer's answer, decoded: what the engine is to do next."""

    kind: Literal["initialization", "step", "reset", "quit"]
    seed: int = 0
    """The seed of an initialization, of which the next two fields are, too."""
    num_areas: int = 0
    communication_version: str = ""
    actions: dict[str, Actions] = field(default_factory=dict)
    """The actions of a step: for each behavior continuous [n, A] and discrete [n, K]."""
    side_channel: bytes = b""


class ReplyDecoder:
    """Reads the trainer's answers in one dialect."""

    def __init__(self, dialect: Dialect = UNITY) -> None:
        self._message_class = dialect.messages.UnityMessageProto
        numbers = dialect.numbers("UnityRLInputProto")
        self._actions = numbers["agent_actions"]
        self._command = numbers["command"]
        self._side_channel = numbers["side_channel"]
        numbers = dialect.numbers("AgentActionProto")
        self._continuous, self._discrete = numbers["continuous_actions"], numbers["discrete_actions"]
        self._ignored = {(numbers["vector_actions_deprecated"], BYTES), (numbers["value"], FIXED32)}
        self._layouts = Layouts(self._layout)

    def decode(self, data: bytes) -> TrainerReply:
        """Decode an answer; raises WireError if it is not one."""
        with suppress(UnknownLayout, Malformed):  # then protobuf decides
            reply = self._fast(data)
            if reply is not None:
                return reply
        try:
            return _plain(self._message_class.FromString(data))
        except UNREADABLE as error:
            raise WireError(f"the trainer's answer of {len(data)} bytes is malformed: {error}") from error

    def _fast(self, data: bytes) -> TrainerReply | None:
        """Decode a step's answer; return None for any other."""
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
            if number == self._command:
                return None
            if (number, wire) == (self._actions, BYTES):
                entry = parts(data, (start, stop), {1: BYTES, 2: BYTES})
                actions[text(data, entry.get(1, NOWHERE))] = self._fast_actions(data, *entry.get(2, NOWHERE))
            elif (number, wire) == (self._side_channel, BYTES):
                side_channel = data[start:stop]
        return TrainerReply("step", actions=actions, side_channel=side_channel)

    def _fast_actions(self, data: bytes, start: int, stop: int) -> Actions:
        """Decode the actions of one behavior by columns; raises UnknownLayout where protobuf is needed."""
        starts, lengths = records(data, start, stop)
        if len(starts) == 0:
            return np.zeros((0, 0), np.float32), np.zeros((0, 0), np.int32)
        grouped = self._layouts.group(data, starts, lengths)
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

    def _layout(self, data: bytes, start: int, stop: int) -> Layout:
        """The layout of an AgentActionProto; raises UnknownLayout where there is none."""
        builder = LayoutBuilder(data, start, stop)
        seen = set()
        for number, wire, at, end in fields(data, start, stop):
            if number in seen:
                raise UnknownLayout
            seen.add(number)
            if (number, wire) == (self._continuous, BYTES) and (end - at) % 4 == 0:
                builder.number("continuous", at, end, (FLOAT, ((end - at) // 4,)))
            elif (number, wire) == (self._discrete, BYTES):
                branch = 0
                while at < end:
                    _, after = varint(data, at, end)
                    builder.varint(f"branch{branch}", at, after)
                    at, branch = after, branch + 1
            elif (number, wire) in self._ignored and (end - at) % 4 == 0:
                builder.number(None, at, end, FLOAT)  # for older engines
            else:
                raise UnknownLayout
        return builder.build()


def _plain(message: UnityMessageProto) -> TrainerReply:
    """Decode any answer, through protobuf's objects."""
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


def _sizes(layout: Layout) -> tuple[int, int]:
    continuous = layout.dtype["continuous"].shape[0] if "continuous" in layout.names else 0
    return continuous, sum(name.startswith("branch") for name in layout.names)
