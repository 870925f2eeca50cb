"""The handshake's content, on both sides."""

from dataclasses import dataclass, fields

from . import messages


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a side understands beyond the protocol's first version. In the order of the message's fields."""

    base_rl: bool = True
    concatenated_png_observations: bool = True
    compressed_channel_mapping: bool = True
    hybrid_actions: bool = True
    training_analytics: bool = True
    variable_length_observation: bool = True
    multi_agent_groups: bool = True

    @classmethod
    def of(cls, proto: messages.UnityRLCapabilitiesProto) -> "Capabilities":
        """From the wire."""
        return cls(*(bool(getattr(proto, field.name)) for field in proto.DESCRIPTOR.fields))

    def proto(self) -> messages.UnityRLCapabilitiesProto:
        """For the wire."""
        names = [field.name for field in messages.UnityRLCapabilitiesProto.DESCRIPTOR.fields]
        flags = [getattr(self, field.name) for field in fields(self)]
        return messages.UnityRLCapabilitiesProto(**dict(zip(names, flags)))


@dataclass(frozen=True, slots=True)
class EngineHello:
    """How an engine introduces itself."""

    name: str
    communication_version: str
    package_version: str
    """Of the C# package, or of what stands in for it."""
    capabilities: Capabilities
