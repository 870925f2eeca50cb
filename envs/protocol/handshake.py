"""The handshake's content, and which versions of the protocol are compatible."""

import re
from dataclasses import dataclass, fields

from . import messages


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a side supports beyond the protocol's first version, in the order of the message's fields."""

    base_rl: bool = True
    concatenated_png_observations: bool = True
    compressed_channel_mapping: bool = True
    hybrid_actions: bool = True
    training_analytics: bool = True
    variable_length_observation: bool = True
    multi_agent_groups: bool = True

    @classmethod
    def of(cls, proto: messages.UnityRLCapabilitiesProto) -> "Capabilities":
        """Read the capabilities from a message on the wire."""
        return cls(*(bool(getattr(proto, field.name)) for field in proto.DESCRIPTOR.fields))

    def proto(self) -> messages.UnityRLCapabilitiesProto:
        """The capabilities as a message for the wire."""
        names = [field.name for field in messages.UnityRLCapabilitiesProto.DESCRIPTOR.fields]
        flags = [getattr(self, field.name) for field in fields(self)]
        return messages.UnityRLCapabilitiesProto(**dict(zip(names, flags)))


@dataclass(frozen=True, slots=True)
class EngineHello:
    """How an engine introduces itself."""

    name: str
    communication_version: str
    package_version: str
    """The version of the C# package, or of its replacement."""
    capabilities: Capabilities


OWN_ENGINE = "Lanista "
"""The beginning of the names that scenes, own games and hosted environments give themselves."""

UNITY_PATH = b"/communicator_objects.UnityToExternalProto/Exchange"
UNREAL_PATH = b"/communicator_objects.UnrealToExternalProto/Exchange"
PATHS = {UNITY_PATH: "Unity", UNREAL_PATH: "Unreal"}
"""The gRPC methods of the communicator protocol, each with the engine whose plug-in calls it."""
OLD_UNITY_PATH = b"/communicator_objects.UnityToExternal/Exchange"
"""The method that games with ML-Agents of 2018 and 2019 call."""
_UPDATE = (
    "give the game a com.unity.ml-agents package that speaks 1.x of the API, such as 2.x, 3.x or 4.x, and "
    "build it again"
)
OLD_UNITY = f"it calls as games with ML-Agents of 2018 and 2019 do (0.4 and later): {_UPDATE}"
"""Why who calls that is turned away."""
OLDEST_UNITY = f"it sends JSON over TCP, as games with ML-Agents of 2017 do (0.1 to 0.3): {_UPDATE}"
"""Why who begins with JSON is turned away."""
API_VERSION = "1.5.0"
"""The communication API that this side speaks."""

PACKAGE_VERSION = "1.1.0"
"""The trainer's version, as reported to the engine.

It is ML-Agents' release that this trainer stands in for, and three plain numbers: the C# packages 1.x
look it up in the range of releases that they know, and warn when it is no version that they can read.
"""

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.\d+)?(?:[ab]\d+)?")
"""The pattern of versions as ML-Agents reads them: two or three numbers, and perhaps an alpha or beta."""


def _parse(version: str) -> tuple[int, int] | None:
    match = _VERSION.fullmatch(version)
    return (int(match[1]), int(match[2])) if match else None


def compatible(engine: str, ours: str = API_VERSION) -> bool:
    """Whether an engine that speaks API version `engine` and a trainer that speaks `ours` can work together.

    From 1.0.0 on the major numbers must be equal; before it, major and minor. A text that is no version
    is compatible with nothing.
    """
    theirs, own = _parse(engine), _parse(ours)
    if theirs is None or own is None:
        return False
    return theirs == own if theirs[0] == 0 else theirs[0] == own[0]
