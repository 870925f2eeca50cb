"""Adapts stats writers that were written for ML-Agents' classes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from ...envs.base import StatsAggregationMethod
from .summary import StatsSummary
from .writer import StatsPropertyType, StatsWriter

_THEIRS = "mlagents.trainers.stats"
_BASE = "StatsWriter"


def adapted(writer: Any) -> StatsWriter:
    """A StatsWriter as it is; an adapter for any other object with ML-Agents' methods.

    Raises:
        TypeError: it has no method `write_stats`.
    """
    if isinstance(writer, StatsWriter):
        return writer
    if not callable(getattr(writer, "write_stats", None)):
        raise TypeError(f"found {writer!r}, expected a StatsWriter, which has a method write_stats")
    return ListeningForeignWriter(writer) if _listens(writer) else ForeignWriter(writer)


class ForeignWriter(StatsWriter):
    """Forwards to `writer` what it supports, with ML-Agents' own enums and summaries if it is installed."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer

    @property
    def name(self) -> str:
        """What messages call it."""
        return type(self.writer).__name__

    def write_stats(self, category: str, values: Mapping[str, StatsSummary], step: int) -> None:
        """Forward a summary."""
        theirs = {key: _their_summary(summary) for key, summary in values.items()}
        self.writer.write_stats(category, theirs, step)

    def add_property(self, category: str, property_type: StatsPropertyType, value: Any) -> None:
        """Forward a property, unless ML-Agents has no such property."""
        if property_type is not StatsPropertyType.MAX_STEPS and hasattr(self.writer, "add_property"):
            kind = _their("StatsPropertyType")
            theirs = property_type if kind is None else kind(property_type.value)
            self.writer.add_property(category, theirs, value)

    def close(self) -> None:
        """Call `close` if the writer has it; ML-Agents' writers do not."""
        close = getattr(self.writer, "close", None)
        if callable(close):
            close()


class ListeningForeignWriter(ForeignWriter):
    """The same for a writer that takes every single value."""

    def on_add_stat(self, category: str, key: str, value: float, aggregation: StatsAggregationMethod) -> None:
        """Forward a value."""
        self.writer.on_add_stat(category, key, value, _their_method(aggregation))


def _listens(writer: Any) -> bool:
    method = getattr(type(writer), "on_add_stat", None)
    return method is not None and getattr(method, "__qualname__", "") != f"{_BASE}.on_add_stat"


def _their(name: str) -> Any:
    """A class of ML-Agents, whose module is loaded if a plug-in was written for it; else None."""
    return getattr(sys.modules.get(_THEIRS), name, None)


def _their_method(method: StatsAggregationMethod) -> Any:
    kind = _their("StatsAggregationMethod")
    return method if kind is None else kind(method.value)


def _their_summary(summary: StatsSummary) -> Any:
    kind = _their("StatsSummary")
    if kind is None:
        return summary
    return kind(
        full_dist=summary.values.tolist(), aggregation_method=_their_method(summary.aggregation_method)
    )
