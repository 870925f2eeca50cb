"""Statistics that the engine's own code reports."""

import uuid

from mlagents_envs.exception import UnitySideChannelException

from ..base import StatsAggregationMethod
from .messages import IncomingMessage
from .side_channel import SideChannel

EnvironmentStats = dict[str, list[tuple[float, StatsAggregationMethod]]]


class StatsSideChannel(SideChannel):
    """Collects what the engine reports until it is taken."""

    def __init__(self) -> None:
        super().__init__(uuid.UUID("a1d8f7b7-cec8-50f9-b78b-d3e165a78520"))
        self.stats: EnvironmentStats = {}

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Keep one value.

        Raises:
            UnitySideChannelException: The message is cut short or names no known aggregation.
        """
        key = msg.read_string()
        value = msg.read_float32()
        number = msg.read_int32()
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
        """What has been reported since the last call, in the order of arrival."""
        stats, self.stats = self.stats, {}
        return stats
