"""The trainer's side: bytes to steps, actions to bytes.

A `Decoder` belongs to one engine. Messages are not turned into protobuf objects: their structure is
walked as bytes (`scan`), agents whose bytes look alike are read together as columns (`layout`), and
only what is rare (the handshake, a new behaviour, agents with compressed pictures) is parsed by protobuf.
"""

from dataclasses import dataclass, field

from google.protobuf.message import DecodeError
from mlagents_envs.base_env import BehaviorSpec

from ..steps import BehaviorSteps
from .agents import AgentReader
from .errors import ObservationError, WireError
from .hello import Capabilities, EngineHello
from .messages import (
    AgentInfoProto,
    BrainParametersProto,
    UnityMessageProto,
    UnityRLInitializationOutputProto,
)
from .replies import encode_actions, encode_initialization, encode_quit, encode_reset
from .scan import BYTES, NOWHERE, VARINT, Irregular, Malformed, Place, fields, parts, records, text, varint
from .specs import behavior

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


class Decoder:
    """Decodes the messages of one engine, in their order."""

    def __init__(self, where: str = "environment 0") -> None:
        """`where` is what errors call the engine."""
        self.where = where
        self.specs: dict[str, BehaviorSpec] = {}
        """Every behaviour known so far."""
        self._readers: dict[str, AgentReader] = {}
        self._awaited: dict[str, BrainParametersProto] = {}

    def decode(self, data: bytes) -> EngineMessage:
        """Decodes one message.

        Observations are float32, [n, *shape]; pictures are channels first and, where they came compressed,
        within 0 and 1. Numbers are passed on as they are, NaN and infinities too.

        Raises:
            WireError: The bytes are no message of the protocol, or contradict what was said before. The
                error names the engine, the behaviour, and the byte or the agent.
            ObservationError: The kind of it that concerns one observation.
        """
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

    def _decode(self, data: bytes) -> EngineMessage:
        outline = _outline(data)
        hello, brains = self._initialization(data, outline.initialization)
        self._awaited.update(brains)
        agents = outline.agents
        specs = {
            name: self._learn(data, name, agents[name]) for name in list(self._awaited) if name in agents
        }
        new = {name: spec for name, spec in specs.items() if spec is not None}
        steps = self._steps(data, agents) if outline.has_steps else None
        return EngineMessage(outline.status, hello, new, steps, outline.side_channel)

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
            known = behavior(self._awaited.pop(name), first)
        except DecodeError as error:
            raise WireError(
                f"{self.where}: behavior {name!r}: malformed agent at byte {start}: {error}"
            ) from error
        except WireError as error:
            raise type(error)(f"{self.where}: behavior {name!r}: {error}") from error
        self._readers[name] = AgentReader(known)
        self.specs[name] = known.spec
        return known.spec

    def _steps(self, data: bytes, agents: dict[str, Place]) -> dict[str, BehaviorSteps]:
        for name, (start, stop) in agents.items():
            if stop > start and name not in self._readers:
                raise WireError(
                    f"{self.where}: there are agents of behavior {name!r}, which the engine has not "
                    f"described; known are {sorted(self._readers)}. Did it start with another trainer?"
                )
        return {
            name: self._read(data, name, reader, agents.get(name)) for name, reader in self._readers.items()
        }

    def _read(self, data: bytes, name: str, reader: AgentReader, place: Place | None) -> BehaviorSteps:
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
