"""The trainer's side: bytes to steps.

A `Decoder` belongs to one engine. Messages are not turned into protobuf objects: their structure is walked as
bytes (`wire_format`), agents whose bytes look alike are read together as columns (`layout`), and only what is
rare (the handshake, a new behavior, agents with compressed images) is parsed by protobuf. A message that
differs from an earlier one only in its numbers is recognized as a whole (`MessageTemplate`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray

from ..base import BehaviorSteps
from ..errors import ObservationError, WireError
from ..images import Images
from .agents import AgentColumns, AgentReader, Run
from .dialect import UNITY, UNREADABLE, Dialect
from .handshake import Capabilities, EngineHello
from .images import ImageCache, ImageDecodeJob
from .messages import BrainParametersProto
from .specs import describe_behavior
from .wire_format import (
    BYTES,
    NOWHERE,
    VARINT,
    Malformed,
    Place,
    UnknownLayout,
    fields,
    parts,
    records,
    text,
    varint,
)

_MAX_TEMPLATE = 1 << 16
"""The most bytes of a message that a template is made of: in longer ones its gain is lost in the rest."""
_MOST_TEMPLATES = 32
"""The most lengths of messages that have templates at a time."""


@dataclass(slots=True)
class EngineMessage:
    """A decoded message of an engine. (Not frozen: that would cost a microsecond.)"""

    status: int
    """The status: 200; anything else means that the engine stops."""
    hello: EngineHello | None
    """The engine's greeting, in the first message; else None."""
    specs: dict[str, BehaviorSpec]
    """The behaviors that this message described, for the first time or again."""
    steps: dict[str, BehaviorSteps] | None
    """The steps of every behavior known so far, with or without agents; None if the message has no steps."""
    side_channel: bytes
    done: ClassVar[bool] = True
    """Whether nothing is still being decoded, which is always so here; see `PendingMessage`."""

    def result(self) -> EngineMessage:
        """The message itself."""
        return self


@dataclass(slots=True)
class PendingMessage:
    """A message whose images may still be being decoded."""

    message: EngineMessage
    columns: dict[str, tuple[AgentReader, AgentColumns]]
    job: ImageDecodeJob

    @property
    def done(self) -> bool:
        """Whether `result` would return or raise without waiting for threads."""
        return self.job.done

    def result(self) -> EngineMessage:
        """The message, once its images are decoded.

        Raises:
            ObservationError: An image cannot be decoded. It names the engine, the behavior, the sensor and
                the agent.
        """
        self.job.result()
        self.message.steps = {name: reader.split(columns) for name, (reader, columns) in self.columns.items()}
        return self.message


@dataclass(slots=True)
class MessageIndex:
    """Where the parts of a message are."""

    status: int = 0
    initialization: Place | None = None
    has_steps: bool = False
    agents: dict[str, Place] = field(default_factory=dict)
    """The place of each behavior's list of agents."""
    side_channel: bytes = b""


@dataclass(slots=True)
class MessageTemplate:
    """A message of which others may differ only in their agents' numbers, as most do from an earlier one.

    It is like the layout of a record, but of a whole message, whose structure need not be walked again then.
    """

    mask: NDArray[np.uint8]
    """A mask with one bits where the message is structure."""
    structure: bytes
    """The message under the mask."""
    status: int
    side_channel: bytes
    runs: list[tuple[str, AgentReader, list[Run], int]]
    """Each behavior's name, reader, runs of agents, and number of agents."""

    def read(self, data: bytes) -> dict[str, BehaviorSteps] | None:
        """The steps of a message of this length; None if it differs in more than numbers."""
        if (np.frombuffer(data, np.uint8) & self.mask).tobytes() != self.structure:
            return None
        steps = {}
        for name, reader, runs, count in self.runs:
            steps[name] = reader.read_runs(data, runs, count) if count else reader.no_steps
        return steps


class Decoder:
    """Decodes the messages of one engine, in their order."""

    def __init__(
        self, where: str = "environment 0", images: Images = "float32", dialect: Dialect = UNITY
    ) -> None:
        """`where` names the engine in errors; `images` is the type of returned compressed images."""
        self.where = where
        self._images = images
        self._dialect = dialect
        self._messages = dialect.messages
        numbers = dialect.numbers("UnityRLOutputProto")
        self._numbers = numbers["agentInfos"], numbers["side_channel"]
        self._cache = ImageCache()
        self.specs: dict[str, BehaviorSpec] = {}
        """Every behavior known so far."""
        self._readers: dict[str, AgentReader] = {}
        self._undescribed: dict[str, BrainParametersProto] = {}
        """Behaviors that still lack their first agent, which completes the description."""
        self._templates: dict[int, MessageTemplate | None] = {}
        """The templates by message length, from its second message on; lengths alternate as episodes end."""

    def decode(self, data: bytes) -> EngineMessage:
        """Decode one message.

        Observations are float32, [n, *shape]; images are channels first and, where they came compressed,
        within 0 and 1; or the uint8 that they are made of, if the decoder's `images` say so and it is exact.
        Values are passed on unchanged, including NaN and infinities.

        Raises:
            WireError: The bytes are not a message of the protocol, or contradict an earlier one. It names
                the engine, the behavior, and the byte or the agent.
            ObservationError: The same, where it concerns one observation.
        """
        return self.start(data).result()

    def is_mid_session(self, data: bytes) -> bool:
        """Whether a first message belongs to a session that is under way: engines send it after a greeting.

        It is not decoded, which takes descriptions of behaviors that engines send only once in a session.
        """
        return self._named_in_session(data) is not None

    def continues(self, data: bytes) -> bool:
        """Whether a first message on another connection goes on with this very session.

        An engine of another game that is left over from an earlier session has agents of behaviors that were
        described to nobody here.
        """
        named = self._named_in_session(data)
        return named is not None and named <= {*self.specs, *self._undescribed}

    def _named_in_session(self, data: bytes) -> set[str] | None:
        """The behaviors that a message has agents of without describing them; None of one that greets."""
        try:
            try:
                index = _index(data, *self._numbers)
            except UnknownLayout:
                data = self._normalized(data)
                index = _index(data, *self._numbers)
            hello, described = self._initialization(data, index.initialization)
        except (UnknownLayout, Malformed, WireError):
            return None
        # A bare header asks for the first reset.
        if hello is not None or not (index.has_steps or index.status == 200):
            return None
        return set(index.agents) - set(described)

    def start(self, data: bytes, on_done: Callable[[], None] | None = None) -> EngineMessage | PendingMessage:
        """Like `decode`, but leave the message's images to threads. One message at a time.

        Args:
            data: The message.
            on_done: Called, from any thread, when the result is ready, unless it is ready at once.
        """
        template = self._templates.get(len(data))
        if template is not None:
            steps = template.read(data)
            if steps is not None:
                return EngineMessage(template.status, None, {}, steps, template.side_channel)
        try:
            try:
                return self._decode(data, on_done)
            except UnknownLayout:
                data = self._normalized(data)
                return self._decode(data, on_done)
        except (UnknownLayout, Malformed) as error:
            raise WireError(f"{self.where}: malformed message of {len(data)} bytes: {error}") from error

    def _decode(self, data: bytes, on_done: Callable[[], None] | None) -> EngineMessage | PendingMessage:
        index = _index(data, *self._numbers)
        hello, brains = self._initialization(data, index.initialization)
        self._undescribed.update(brains)
        agents = index.agents
        specs = {
            name: self._describe(data, name, agents[name])
            for name in list(self._undescribed)
            if name in agents
        }
        new = {name: spec for name, spec in specs.items() if spec is not None}
        message = EngineMessage(index.status, hello, new, None, index.side_channel)
        if not index.has_steps:
            return message
        columns = self._columns(data, agents)
        images = [image for _, each in columns.values() for image in each.images]
        if images:
            self._cache.next_message()
            return PendingMessage(message, columns, ImageDecodeJob(images, self._cache, on_done))
        if len(self._templates) >= _MOST_TEMPLATES:
            self._templates.clear()
        if len(data) <= _MAX_TEMPLATE:
            known = len(data) in self._templates
            self._templates[len(data)] = _template(data, index, columns) if known else None
        message.steps = {name: reader.split(each) for name, (reader, each) in columns.items()}
        return message

    def _initialization(
        self, data: bytes, place: Place | None
    ) -> tuple[EngineHello | None, dict[str, BrainParametersProto]]:
        """The engine's greeting, if this is one, and the behaviors that it describes."""
        if place is None:
            return None, {}
        try:
            proto = self._messages.UnityRLInitializationOutputProto.FromString(data[slice(*place)])
        except UNREADABLE as error:
            raise Malformed(place[0], f"an initialization that protobuf cannot parse ({error})") from error
        brains = {brain.brain_name: brain for brain in proto.brain_parameters}
        if brains and not proto.communication_version:
            return None, brains
        capabilities = self._dialect.capabilities or Capabilities.of(proto.capabilities)
        return EngineHello(
            proto.name, proto.communication_version, proto.package_version, capabilities
        ), brains

    def _describe(self, data: bytes, name: str, place: Place) -> BehaviorSpec | None:
        """Complete a behavior's description by its first agent's; None while it has no agent."""
        starts, lengths = records(data, *place)
        if len(starts) == 0:
            return None
        start, length = int(starts[0]), int(lengths[0])
        try:
            first = self._messages.AgentInfoProto.FromString(data[start : start + length])
            known = describe_behavior(self._undescribed.pop(name), first, self._images)
        except UNREADABLE as error:
            raise WireError(
                f"{self.where}: behavior {name!r}: malformed agent at byte {start}: {error}"
            ) from error
        except WireError as error:
            raise type(error)(f"{self.where}: behavior {name!r}: {error}") from error
        self._readers[name] = AgentReader(known, f"{self.where}: behavior {name!r}", self._dialect)
        self.specs[name] = known.spec
        self._templates.clear()  # they are of other agents, whatever becomes of the rest of this message
        return known.spec

    def _columns(self, data: bytes, agents: dict[str, Place]) -> dict[str, tuple[AgentReader, AgentColumns]]:
        for name, (start, stop) in agents.items():
            if stop > start and name not in self._readers:
                raise WireError(
                    f"{self.where}: there are agents of behavior {name!r}, which the engine has not "
                    f"described; known are {sorted(self._readers)}. Did it start with another trainer?"
                )
        return {
            name: (reader, self._read(data, name, reader, agents.get(name)))
            for name, reader in self._readers.items()
        }

    def _read(self, data: bytes, name: str, reader: AgentReader, place: Place | None) -> AgentColumns:
        if place is None or place[0] == place[1]:
            return reader.columns(0)
        try:
            return reader.read(data, *place)
        except ObservationError as error:
            raise ObservationError(f"{self.where}: behavior {name!r}: {error}") from error
        except MemoryError as error:
            raise WireError(
                f"{self.where}: behavior {name!r}: no memory for the agents of {len(data)} bytes"
            ) from error
        except Malformed as error:
            raise WireError(
                f"{self.where}: behavior {name!r}: malformed message of {len(data)} bytes: {error}"
            ) from error

    def _normalized(self, data: bytes) -> bytes:
        """The same message as engines write it, rewritten by protobuf."""
        try:
            message = self._messages.UnityMessageProto.FromString(data)
        except UNREADABLE as error:
            raise WireError(f"{self.where}: malformed message of {len(data)} bytes: {error}") from error
        message.DiscardUnknownFields()
        return message.SerializeToString()


def _index(data: bytes, agents: int, side_channel: int) -> MessageIndex:
    """Find a message's parts; `agents` and `side_channel` are the fields of its UnityRLOutputProto."""
    index = MessageIndex()
    message = parts(data, (0, len(data)), {1: BYTES, 2: BYTES})
    status = parts(data, message.get(1, NOWHERE), {1: VARINT}).get(1)
    if status is not None:
        index.status = varint(data, *status)[0]
    output = parts(data, message.get(2, NOWHERE), {1: BYTES, 2: BYTES})
    index.initialization = output.get(2)
    if 1 in output:
        index.has_steps = True
        for number, wire, start, stop in fields(data, *output[1]):
            if number == agents and wire == BYTES:
                entry = parts(data, (start, stop), {1: BYTES, 2: BYTES})
                index.agents[text(data, entry.get(1, NOWHERE))] = entry.get(2, NOWHERE)
            elif number == side_channel and wire == BYTES:
                index.side_channel = data[start:stop]
    return index


def _template(
    data: bytes, index: MessageIndex, columns: dict[str, tuple[AgentReader, AgentColumns]]
) -> MessageTemplate | None:
    """The template of a message that was read; None unless each of its agents has a layout."""
    if index.initialization is not None or any(each.runs is None for _, each in columns.values()):
        return None
    mask = np.full(len(data), 0xFF, np.uint8)
    runs = []
    for name, (reader, each) in columns.items():
        for run in each.runs or ():
            run.release(mask)
        runs.append((name, reader, each.runs or [], len(each.agent_id)))
    structure = (np.frombuffer(data, np.uint8) & mask).tobytes()
    return MessageTemplate(mask, structure, index.status, index.side_channel, runs)
