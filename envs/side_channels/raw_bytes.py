"""Bytes whose meaning the user's own code knows."""

import uuid

from .messages import IncomingMessage, OutgoingMessage
from .side_channel import SideChannel


class RawBytesChannel(SideChannel):
    """Passes bytes on as they are. The user chooses the UUID."""

    def __init__(self, channel_id: uuid.UUID) -> None:
        super().__init__(channel_id)
        self._received: list[bytearray] = []

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Keep a message until it is taken."""
        self._received.append(msg.get_raw_bytes())

    def send_raw_data(self, data: bytes | bytearray) -> None:
        """Send bytes with the next step or reset."""
        message = OutgoingMessage()
        message.set_raw_bytes(data)
        self.queue_message_to_send(message)

    def get_and_clear_received_messages(self) -> list[bytearray]:
        """What has arrived since the last call, in order."""
        received, self._received = self._received, []
        return received
