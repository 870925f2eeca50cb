"""Named numbers that both sides may set."""

import uuid

from .messages import IncomingMessage, OutgoingMessage
from .side_channel import SideChannel


class FloatPropertiesChannel(SideChannel):
    """Numbers by name; either side may set them, the last to do so wins."""

    def __init__(self, channel_id: uuid.UUID | None = None) -> None:
        super().__init__(channel_id or uuid.UUID("60ccf7d0-4f7e-11ea-b238-784f4387d1f7"))
        self._properties: dict[str, float] = {}

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Take a number that the engine has set."""
        key = msg.read_string()
        self._properties[key] = msg.read_float32()

    def set_property(self, key: str, value: float) -> None:
        """Set a number here, and in the engine with the next step or reset."""
        self._properties[key] = value
        message = OutgoingMessage()
        message.write_string(key)
        message.write_float32(value)
        self.queue_message_to_send(message)

    def get_property(self, key: str) -> float | None:
        """The number, None if it was not set."""
        return self._properties.get(key)

    def list_properties(self) -> list[str]:
        """All names that were set."""
        return list(self._properties)

    def get_property_dict_copy(self) -> dict[str, float]:
        """All names and numbers."""
        return dict(self._properties)
