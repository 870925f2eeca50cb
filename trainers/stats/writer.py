"""The seam at which summaries leave the trainer: files, the console, a display, a plug-in.

A behavior's settings as text, for the console and for TensorBoard.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import Enum
from typing import Any

from ...envs.base import StatsAggregationMethod
from .summary import StatsSummary


class StatsPropertyType(Enum):
    """What a trainer tells its writers once, beside the statistics."""

    HYPERPARAMETERS = "hyperparameters"
    """The behavior's settings, nested dictionaries of plain values."""
    SELF_PLAY = "selfplay"
    """bool: the behavior plays against itself and has a rating."""
    MAX_STEPS = "max_steps"
    """int: the step at which training ends."""


class StatsWriter(ABC):
    """Takes the summaries of all categories; a category is a behavior's name.

    Trainers may report from several threads: calls for one category never overlap, calls for different
    categories may.
    """

    @property
    def name(self) -> str:
        """What messages call it."""
        return type(self).__name__

    @abstractmethod
    def write_stats(self, category: str, values: Mapping[str, StatsSummary], step: int) -> None:
        """A summary is due at `step`; `values` maps each key to what was reported since the last one."""

    def write_between(self, category: str, values: Mapping[str, StatsSummary], step: int) -> None:
        """Figures that belong to `step` alone, such as a test's; by default as a summary of these alone."""
        self.write_stats(category, values, step)

    def add_video(self, category: str, key: str, gif: bytes, size: tuple[int, int], step: int) -> None:  # noqa: B027
        """An animation of (width, height) pixels that belongs to `step`."""

    def on_add_stat(  # noqa: B027 (optional)
        self,
        category: str,
        key: str,
        value: float,
        aggregation: StatsAggregationMethod,
    ) -> None:
        """Called for every single value, where a writer overrides it (each value then costs a call)."""

    def add_property(self, category: str, property_type: StatsPropertyType, value: Any) -> None:  # noqa: B027
        """A fact about the category, told once."""

    def close(self) -> None:  # noqa: B027
        """The run is over: write what is left, close files."""


def hyperparameter_text(settings: Mapping[str, Any], level: int = 0) -> str:
    """One line `<tab><key>:<tab><value>` per setting; nested ones follow, indented by two more spaces."""
    lines = []
    for key, value in settings.items():
        nested = isinstance(value, Mapping)
        lines.append(f"\t{'  ' * level}{key}:\t{'' if nested else value}")
        if nested and value:
            lines.append(hyperparameter_text(value, level + 1))
    return "\n".join(lines)
