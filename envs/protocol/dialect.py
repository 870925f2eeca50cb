"""Dialects of the communicator protocol: the same messages and the same conversation, numbered differently.

Plug-ins for other engines were made from Unity's, whose messages they kept and whose fields they numbered
anew. Decoders and encoders are made for one dialect and look its numbers up then, once.
"""

from collections.abc import Mapping
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Protocol, cast

from google.protobuf.message import DecodeError, Message

from . import messages
from .handshake import API_VERSION, PACKAGE_VERSION, UNITY_PATH, UNREAL_PATH, Capabilities

UNREADABLE = (DecodeError, UnicodeDecodeError)
"""The errors that protobuf raises for bytes that are not a message, the second only in its Python version."""

Numbers = Mapping[str, Mapping[str, int]]
"""The number of each field of each message, by the message's and the field's names in Unity's dialect."""


class Messages(Protocol):
    """The message classes that decoders and encoders use; their names and fields are those of Unity's."""

    ActionSpecProto: type[messages.ActionSpecProto]
    AgentInfoProto: type[messages.AgentInfoProto]
    BrainParametersProto: type[messages.BrainParametersProto]
    UnityInputProto: type[messages.UnityInputProto]
    UnityMessageProto: type[messages.UnityMessageProto]
    UnityOutputProto: type[messages.UnityOutputProto]
    UnityRLInitializationOutputProto: type[messages.UnityRLInitializationOutputProto]


class Dialect:
    """How one plug-in speaks the protocol.

    Args:
        path: The gRPC method that it calls.
        api_version: The communication API that we speak with it.
        package_version: The trainer's version, as reported to it.
        numbers: Messages whose fields are numbered otherwise than Unity's, with all fields that they have;
            those without an entry are as Unity's.
        capabilities: What all its releases can do, if their greeting does not say.
        names_behaviors_in_resets: Whether a reset is only obeyed if it has entries for behaviors.
    """

    def __init__(
        self,
        path: bytes,
        api_version: str,
        package_version: str,
        numbers: Numbers | None = None,
        *,
        capabilities: Capabilities | None = None,
        names_behaviors_in_resets: bool = False,
    ) -> None:
        self.path = path
        self.api_version = api_version
        self.package_version = package_version
        self.capabilities = capabilities
        self.names_behaviors_in_resets = names_behaviors_in_resets
        self._numbers = numbers or {}

    @cached_property
    def messages(self) -> Messages:
        """The message classes; fields that the dialect lacks are there, and at their defaults."""
        renumbered = SimpleNamespace(**messages.build(self._numbers)) if self._numbers else messages
        return cast("Messages", renumbered)

    def numbers(self, message: str) -> dict[str, int]:
        """The number of each field of a message; those of fields that it lacks are never sent."""
        descriptor = getattr(self.messages, message).DESCRIPTOR
        return {field.name: field.number for field in descriptor.fields}

    def has(self, message: str, field: str) -> bool:
        """Whether the dialect's message has this field of Unity's."""
        return message not in self._numbers or field in self._numbers[message]

    def make(self, message: str, **fields: Any) -> Message:
        """A message with these fields, as far as the dialect has them."""
        given = {name: value for name, value in fields.items() if self.has(message, name)}
        return cast("Message", getattr(self.messages, message)(**given))


UNITY = Dialect(UNITY_PATH, API_VERSION, PACKAGE_VERSION)


def _in_order(fields: str) -> dict[str, int]:
    return {field: number for number, field in enumerate(fields.split(), 1)}


UNREAL = Dialect(
    path=UNREAL_PATH,
    api_version="1.0.0",
    package_version="1.0.0",
    numbers={
        "AgentActionProto": _in_order("value continuous_actions discrete_actions"),
        "AgentInfoProto": _in_order(
            "reward done max_step_reached id action_mask observations group_id group_reward"
        ),
        "BrainParametersProto": _in_order("brain_name is_training action_spec"),
        "ObservationProto": _in_order("shape float_data dimension_properties name"),
        "UnityRLInputProto": _in_order("agent_actions command side_channel"),
        "UnityRLOutputProto": _in_order("agentInfos side_channel"),
        "UnityRLInitializationInputProto": _in_order("seed communication_version package_version num_areas"),
        "UnityRLInitializationOutputProto": _in_order(
            "name communication_version log_path brain_parameters package_version"
        ),
    },
    capabilities=Capabilities(
        concatenated_png_observations=False, compressed_channel_mapping=False, training_analytics=False
    ),
    # The plug-in stops reading an answer without actions, and then mixes up the agents of the later ones.
    names_behaviors_in_resets=True,
)
"""The dialect of the plug-in UnrealMLAgents 1.0; the numbers are those of its Python package, `ueagents_envs`
1.0.0, which is the tests' peer."""
