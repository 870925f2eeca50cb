"""Side channels: carry other data than observations and actions, each under a UUID of its own."""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Hashable

from mlagents_envs.exception import UnityCommunicationException, UnitySideChannelException

from ..base import StatsAggregationMethod
from .messages import IncomingMessage, OutgoingMessage


class SideChannel(ABC):
    """A channel to and from the engine, where its counterpart has the same UUID.

    Messages wait in `message_queue` and leave with the next step or reset.
    """

    def __init__(self, channel_id: uuid.UUID) -> None:
        self._channel_id = channel_id
        self.message_queue: list[bytearray] = []
        self.__settings: dict[Hashable, bytearray] = {}

    @property
    def channel_id(self) -> uuid.UUID:
        """The UUID that this channel and its counterpart share."""
        return self._channel_id

    def queue_message_to_send(self, msg: OutgoingMessage) -> None:
        """Send a message with the next step or reset."""
        self.message_queue.append(msg.buffer)

    def queue_setting(self, key: Hashable, msg: OutgoingMessage) -> None:
        """Send a message with the next step or reset; it counts until the next one with its key."""
        self.queue_message_to_send(msg)
        self.__settings[key] = msg.buffer

    def resend_settings(self) -> None:
        """Send all settings that count to an engine that has begun anew."""
        waiting = {id(buffer) for buffer in self.message_queue}
        self.message_queue += [buffer for buffer in self.__settings.values() if id(buffer) not in waiting]

    @abstractmethod
    def on_message_received(self, msg: IncomingMessage) -> None:
        """Process a message from the engine."""


class OutgoingSideChannel(SideChannel):
    """A channel on which the engine only receives."""

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Reject it: the engine sends nothing on this channel."""
        raise UnityCommunicationException(
            f"The {type(self).__name__} received a message from Unity, this should not have happened."
        )


class RawBytesChannel(SideChannel):
    """Passes bytes on unchanged, for the user's own code. The user chooses the UUID."""

    def __init__(self, channel_id: uuid.UUID) -> None:
        super().__init__(channel_id)
        self._received: list[bytearray] = []

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Keep a message until it is fetched."""
        self._received.append(msg.get_raw_bytes())

    def send_raw_data(self, data: bytes | bytearray) -> None:
        """Send bytes with the next step or reset."""
        message = OutgoingMessage()
        message.set_raw_bytes(data)
        self.queue_message_to_send(message)

    def get_and_clear_received_messages(self) -> list[bytearray]:
        """The messages that have arrived since the last call, in order."""
        received, self._received = self._received, []
        return received


class FloatPropertiesChannel(SideChannel):
    """Numbers by name. Either side may set them; the last value set counts."""

    def __init__(self, channel_id: uuid.UUID | None = None) -> None:
        super().__init__(channel_id or uuid.UUID("60ccf7d0-4f7e-11ea-b238-784f4387d1f7"))
        self._properties: dict[str, float] = {}

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Store a number that the engine has set."""
        key = msg.read_string()
        self._properties[key] = msg.read_float32()

    def set_property(self, key: str, value: float) -> None:
        """Set a number here, and in the engine with the next step or reset."""
        self._properties[key] = value
        message = OutgoingMessage()
        message.write_string(key)
        message.write_float32(value)
        self.queue_setting(key, message)

    def get_property(self, key: str) -> float | None:
        """The number; None if it was not set."""
        return self._properties.get(key)

    def list_properties(self) -> list[str]:
        """All names that were set."""
        return list(self._properties)

    def get_property_dict_copy(self) -> dict[str, float]:
        """All names with their numbers."""
        return dict(self._properties)


STATS_CHANNEL = uuid.UUID("a1d8f7b7-cec8-50f9-b78b-d3e165a78520")
"""The channel of the StatsRecorder in a game's code."""
EnvironmentStats = dict[str, list[tuple[float, StatsAggregationMethod]]]


class StatsSideChannel(SideChannel):
    """Collects the statistics that the engine's code reports."""

    def __init__(self) -> None:
        super().__init__(STATS_CHANNEL)
        self.stats: EnvironmentStats = {}

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Store one value.

        Raises:
            UnitySideChannelException: The message is cut short or has an unknown aggregation.
        """
        key, value, number = msg.read_string(), msg.read_float32(), msg.read_int32()
        try:
            aggregation = StatsAggregationMethod(number)
        except ValueError:
            known = ", ".join(f"{method.value} ({method.name})" for method in StatsAggregationMethod)
            raise UnitySideChannelException(
                f"The statistic {key!r} came with the aggregation {number}, which is not a valid "
                f"StatsAggregationMethod. Known are {known}."
            ) from None
        self.stats.setdefault(key, []).append((value, aggregation))

    def get_and_reset_stats(self) -> EnvironmentStats:
        """The values reported since the last call, in order of arrival."""
        stats, self.stats = self.stats, {}
        return stats
