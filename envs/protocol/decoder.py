"""The trainer's side: bytes to steps, actions to bytes.

A `Decoder` belongs to one engine. Messages are not turned into protobuf objects: their structure is
walked as bytes (`scan`), agents whose bytes look alike are read together as columns (`layout`), and
only what is rare (the handshake, a new behaviour, agents with compressed pictures) is parsed by protobuf.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError
from mlagents_envs.base_env import BehaviorSpec

from ..base import BehaviorSteps
from ..errors import ObservationError, WireError
from ..images import Images
from .agents import AgentReader, Columns
from .encoder import encode_actions, encode_initialization, encode_quit, encode_reset
from .handshake import Capabilities, EngineHello
from .images import Decoding, Picture, Seen
from .messages import (
    AgentInfoProto,
    BrainParametersProto,
    UnityMessageProto,
    UnityRLInitializationOutputProto,
)
from .specs import behavior
from .wire_format import (
    BYTES,
    NOWHERE,
    VARINT,
    Irregular,
    Malformed,
    Place,
    fields,
    parts,
    records,
    text,
    varint,
)

__all__ = [
    "Capabilities",
    "Decoder",
    "EngineHello",
    "EngineMessage",
    "encode_actions",
    "encode_initialization",
    "encode_quit",
    "encode_reset",
]


@dataclass(frozen=True, slots=True)
class EngineMessage:
    """What an engine said."""

    status: int
    """200; anything else says that the engine stops."""
    hello: EngineHello | None
    """In the first message."""
    specs: dict[str, BehaviorSpec]
    """The behaviours that this message described, for the first time or anew."""
    steps: dict[str, BehaviorSteps] | None
    """Of every behaviour known so far, with or without agents; None when the message is not of a step."""
    side_channel: bytes


@dataclass(slots=True)
class _Outline:
    """Where the parts of a message are."""

    status: int = 0
    initialization: Place | None = None
    has_steps: bool = False
    agents: dict[str, Place] = field(default_factory=dict)
    """For each behaviour the list of its agents."""
    side_channel: bytes = b""


@dataclass(slots=True)
class _Outcome:
    """A message that was read, but for its pictures. (Not frozen: that would cost a microsecond.)"""

    status: int
    hello: EngineHello | None
    specs: dict[str, BehaviorSpec]
    columns: dict[str, tuple[AgentReader, Columns]] | None
    side_channel: bytes

    def message(self) -> EngineMessage:
        """The message, when its pictures are there."""
        steps = None
        if self.columns is not None:
            steps = {name: reader.split(columns) for name, (reader, columns) in self.columns.items()}
        return EngineMessage(self.status, self.hello, self.specs, steps, self.side_channel)

    def pictures(self) -> list[Picture]:
        """What is still to be decoded."""
        found: list[Picture] = []
        if self.columns is not None:
            for _, columns in self.columns.values():
                if columns.pictures:
                    found += columns.pictures
        return found


class Underway:
    """A message that was read, and whose pictures may still be on their way."""

    def __init__(self, outcome: _Outcome, pictures: Decoding | None) -> None:
        self._outcome = outcome
        self._pictures = pictures

    @property
    def ready(self) -> bool:
        """Whether `finish` would not wait for threads."""
        return self._pictures is None or self._pictures.ready

    def finish(self) -> EngineMessage:
        """The message.

        Raises:
            ObservationError: A picture cannot be decoded. It names the engine, the behaviour, the sensor and
                the agent.
        """
        if self._pictures is not None:
            self._pictures.finish()
        return self._outcome.message()


class Decoder:
    """Decodes the messages of one engine, in their order."""

    def __init__(self, where: str = "environment 0", images: Images = "float32") -> None:
        """`where` is what errors call the engine; `images`, what compressed pictures are given out as."""
        self.where = where
        self._images = images
        self._seen = Seen()
        self.specs: dict[str, BehaviorSpec] = {}
        """Every behaviour known so far."""
        self._readers: dict[str, AgentReader] = {}
        self._awaited: dict[str, BrainParametersProto] = {}

    def decode(self, data: bytes) -> EngineMessage:
        """Decodes one message.

        Observations are float32, [n, *shape]; pictures are channels first and, where they came compressed,
        within 0 and 1; or the uint8 that makes these, if the decoder's `images` say so and it is exact.
        Numbers are passed on as they are, NaN and infinities too.

        Raises:
            WireError: The bytes are no message of the protocol, or contradict what was said before. The
                error names the engine, the behaviour, and the byte or the agent.
            ObservationError: The kind of it that concerns one observation.
        """
        return self.begin(data).finish()

    def begin(self, data: bytes, when_done: Callable[[], None] | None = None) -> Underway:
        """As `decode`, but threads may still be at its pictures. One message at a time.

        Args:
            data: The message.
            when_done: Called, from any thread, as soon as the result is ready, if it is not at once.
        """
        outcome = self._read_all(data)
        found = outcome.pictures()
        if not found:
            return Underway(outcome, None)
        self._seen.next_message()
        return Underway(outcome, Decoding(found, self._seen, when_done))

    def _read_all(self, data: bytes) -> _Outcome:
        try:
            return self._decode(data)
        except Irregular:
            data = self._rewritten(data)
        except Malformed as error:
            raise WireError(f"{self.where}: malformed message of {len(data)} bytes: {error}") from error
        try:
            return self._decode(data)
        except (Irregular, Malformed) as error:
            raise WireError(f"{self.where}: malformed message of {len(data)} bytes: {error}") from error

    def _decode(self, data: bytes) -> _Outcome:
        outline = _outline(data)
        hello, brains = self._initialization(data, outline.initialization)
        self._awaited.update(brains)
        agents = outline.agents
        specs = {
            name: self._learn(data, name, agents[name]) for name in list(self._awaited) if name in agents
        }
        new = {name: spec for name, spec in specs.items() if spec is not None}
        columns = self._columns(data, agents) if outline.has_steps else None
        return _Outcome(outline.status, hello, new, columns, outline.side_channel)

    def _initialization(
        self, data: bytes, place: Place | None
    ) -> tuple[EngineHello | None, dict[str, BrainParametersProto]]:
        """How the engine introduces itself, if it does here, and the behaviours that it describes."""
        if place is None:
            return None, {}
        try:
            proto = UnityRLInitializationOutputProto.FromString(data[slice(*place)])
        except DecodeError as error:
            raise Malformed(place[0], f"an initialization that protobuf cannot parse ({error})") from error
        brains = {brain.brain_name: brain for brain in proto.brain_parameters}
        if brains and not proto.communication_version:
            return None, brains
        capabilities = Capabilities.of(proto.capabilities)
        return EngineHello(
            proto.name, proto.communication_version, proto.package_version, capabilities
        ), brains

    def _learn(self, data: bytes, name: str, place: Place) -> BehaviorSpec | None:
        """Completes a behaviour's description by its first agent's; None while it has no agent."""
        starts, lengths = records(data, *place)
        if len(starts) == 0:
            return None
        start, length = int(starts[0]), int(lengths[0])
        try:
            first = AgentInfoProto.FromString(data[start : start + length])
            known = behavior(self._awaited.pop(name), first, self._images)
        except DecodeError as error:
            raise WireError(
                f"{self.where}: behavior {name!r}: malformed agent at byte {start}: {error}"
            ) from error
        except WireError as error:
            raise type(error)(f"{self.where}: behavior {name!r}: {error}") from error
        self._readers[name] = AgentReader(known, f"{self.where}: behavior {name!r}")
        self.specs[name] = known.spec
        return known.spec

    def _columns(self, data: bytes, agents: dict[str, Place]) -> dict[str, tuple[AgentReader, Columns]]:
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

    def _read(self, data: bytes, name: str, reader: AgentReader, place: Place | None) -> Columns:
        if place is None or place[0] == place[1]:
            return reader.nobody()
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

    def _rewritten(self, data: bytes) -> bytes:
        """The same message as engines write it, by protobuf."""
        try:
            message = UnityMessageProto.FromString(data)
        except DecodeError as error:
            raise WireError(f"{self.where}: malformed message of {len(data)} bytes: {error}") from error
        message.DiscardUnknownFields()
        return message.SerializeToString()


def _outline(data: bytes) -> _Outline:
    """Finds a message's parts."""
    outline = _Outline()
    message = parts(data, (0, len(data)), {1: BYTES, 2: BYTES})
    status = parts(data, message.get(1, NOWHERE), {1: VARINT}).get(1)
    if status is not None:
        outline.status = varint(data, *status)[0]
    output = parts(data, message.get(2, NOWHERE), {1: BYTES, 2: BYTES})
    outline.initialization = output.get(2)
    if 1 in output:
        outline.has_steps = True
        for number, wire, start, stop in fields(data, *output[1]):
            if number == 2 and wire == BYTES:
                entry = parts(data, (start, stop), {1: BYTES, 2: BYTES})
                outline.agents[text(data, entry.get(1, NOWHERE))] = entry.get(2, NOWHERE)
            elif number == 3 and wire == BYTES:
                outline.side_channel = data[start:stop]
    return outline
