"""How values that an engine or a trainer reports are put together into one figure."""

from enum import Enum


class StatsAggregationMethod(Enum):
    """What becomes of the values that one key collects between two summaries. Numbers as on the wire."""

    AVERAGE = 0
    MOST_RECENT = 1
    SUM = 2
    HISTOGRAM = 3
