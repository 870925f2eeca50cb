"""The binary format in which the messages of all side channels are sent together.

Each message is the channel's UUID in .NET's order of bytes (16), its length (int32, little-endian)
and its content.
"""

import logging
import struct
import uuid
from collections.abc import Iterable, Iterator

from mlagents_envs.exception import (
    UnityCommunicationException,
    UnityEnvironmentException,
    UnityException,
    UnitySideChannelException,
)

from .messages import IncomingMessage
from .side_channel import STATS_CHANNEL, SideChannel

logger = logging.getLogger(__name__)

_UNREADABLE = (ValueError, LookupError, ArithmeticError, EOFError, struct.error)
"""What a user's own channel may raise on unexpected bytes."""
_HEADER = struct.Struct("<16si")
_MOST_UNKNOWN = 100
"""Channels that are warned of: an engine that sends new ones all the time fills neither memory nor log."""


class SideChannelManager:
    """Collects the channels' outgoing messages and dispatches the incoming ones."""

    def __init__(self, side_channels: Iterable[SideChannel] | None = None, where: str = "") -> None:
        """`where`: the prefix of error messages, such as `environment 3`.

        Raises:
            UnityEnvironmentException: Two channels have the same UUID.
        """
        self._where = where and f"{where}: "
        self._channels: dict[bytes, SideChannel] = {}
        self._unknown: set[bytes] = set()
        for channel in side_channels or ():
            key = channel.channel_id.bytes_le
            if key in self._channels:
                raise UnityEnvironmentException(
                    f"There cannot be two side channels with the same channel id {channel.channel_id}: a "
                    f"{type(self._channels[key]).__name__} and a {type(channel).__name__} have it. Give each "
                    "channel a UUID of its own."
                )
            self._channels[key] = channel

    def generate(self) -> bytes:
        """All queued messages, channel by channel, each in order; empties the queues."""
        parts: list[bytes | bytearray] = []
        for key, channel in self._channels.items():
            # The list is cut, not replaced: another thread may append meanwhile.
            waiting = list(channel.message_queue)
            if waiting:
                del channel.message_queue[: len(waiting)]
                for message in waiting:
                    parts += (_HEADER.pack(key, len(message)), message)
        return b"".join(parts)

    def process(self, data: bytes | bytearray) -> None:
        """Dispatch each message to its channel; unknown channels are skipped with one warning each.

        Raises:
            UnityEnvironmentException: The framing is damaged.
            UnitySideChannelException: A channel, perhaps the user's own, could not read its message.
            UnityCommunicationException: A message arrived on a channel on which the engine only receives.
        """
        for key, content in self._split(data):
            channel = self._channels.get(key)
            if channel is None:
                self._skip(key)
                continue
            try:
                channel.on_message_received(IncomingMessage(content))
            except UnityCommunicationException as error:
                raise UnityCommunicationException(self._blame(channel, error)) from error
            except (UnitySideChannelException, *_UNREADABLE) as error:
                raise UnitySideChannelException(self._blame(channel, error)) from error

    generate_side_channel_messages = generate
    """`generate` as ML-Agents names it."""
    process_side_channel_message = process
    """`process` as ML-Agents names it."""

    def _blame(self, channel: SideChannel, error: Exception) -> str:
        text = str(error) if isinstance(error, UnityException) else f"{type(error).__name__}: {error}"
        return f"{self._where}Side channel {channel.channel_id} ({type(channel).__name__}): {text}"

    def _skip(self, key: bytes) -> None:
        if key not in self._unknown and len(self._unknown) < _MOST_UNKNOWN:
            self._unknown.add(key)
            channel_id = uuid.UUID(bytes_le=key)
            statistics = (
                " It is the game's StatsRecorder: give the environment a StatsSideChannel among its "
                "side_channels to read the statistics."
            )
            logger.warning(
                "%sUnknown side channel data received. Channel type: %s.%s",
                self._where,
                channel_id,
                statistics if channel_id == STATS_CHANNEL else "",
            )

    def _split(self, data: bytes | bytearray) -> Iterator[tuple[bytes, bytes]]:
        """Each message's key and content."""
        offset = 0
        while offset < len(data):
            left = len(data) - offset
            if left < _HEADER.size:
                raise UnityEnvironmentException(
                    f"{self._where}There was a problem reading a message in a SideChannel: the header at "
                    f"byte {offset} needs {_HEADER.size} bytes and {left} are left. Please make sure the "
                    "version of MLAgents in Unity is compatible with this version of Lanista."
                )
            key, length = _HEADER.unpack_from(data, offset)
            offset, left = offset + _HEADER.size, left - _HEADER.size
            if not 0 <= length <= left:
                raise UnityEnvironmentException(
                    f"{self._where}The message received by the side channel {uuid.UUID(bytes_le=key)} was "
                    f"unexpectedly short: it says that it has {length} bytes, and {left} are left. Make sure "
                    "your Unity Environment sends side channel data properly."
                )
            yield key, bytes(data[offset : offset + length])
            offset += length
