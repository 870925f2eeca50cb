"""Hands summaries to callbacks."""

from __future__ import annotations

from collections.abc import Mapping

from ..stats.summary import StatsSummary
from ..stats.tensorboard import HIDDEN_KEYS
from ..stats.writer import StatsWriter
from .events import SummaryDue
from .hub import CallbackHub


class CallbackWriter(StatsWriter):
    """Tells the callbacks of every summary, and of the figures of tests."""

    def __init__(self, callbacks: CallbackHub) -> None:
        self.callbacks = callbacks

    def write_stats(self, category: str, values: Mapping[str, StatsSummary], step: int) -> None:
        """Tell of a summary."""
        figures = {key: summary.aggregated_value for key, summary in values.items() if key not in HIDDEN_KEYS}
        self.callbacks.tell(SummaryDue(category, step, figures))
