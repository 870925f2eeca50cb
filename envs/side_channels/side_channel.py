"""What a side channel is: a way for other data than observations and actions, known by a UUID."""

import uuid
from abc import ABC, abstractmethod

from mlagents_envs.exception import UnityCommunicationException

from .messages import IncomingMessage, OutgoingMessage


class SideChannel(ABC):
    """One way to and from the engine. Its counterpart there has the same UUID.

    Messages wait in `message_queue` and leave with the next step or reset.
    """

    def __init__(self, channel_id: uuid.UUID) -> None:
        self._channel_id = channel_id
        self.message_queue: list[bytearray] = []

    @property
    def channel_id(self) -> uuid.UUID:
        """The UUID that this channel and its counterpart share."""
        return self._channel_id

    def queue_message_to_send(self, msg: OutgoingMessage) -> None:
        """Send a message with the next step or reset."""
        self.message_queue.append(msg.buffer)

    @abstractmethod
    def on_message_received(self, msg: IncomingMessage) -> None:
        """Take a message that came from the engine."""


class OutgoingSideChannel(SideChannel):
    """A channel on which the engine only listens."""

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Refuse it: the engine has nothing to say here."""
        raise UnityCommunicationException(
            f"The {type(self).__name__} received a message from Unity, this should not have happened."
        )
