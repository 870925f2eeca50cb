"""The interface of stats writers: files, the console, a display, plug-ins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import Enum
from typing import Any

from ...envs.base import StatsAggregationMethod
from .summary import StatsSummary


class StatsPropertyType(Enum):
    """Facts about a behavior that writers get once, in addition to the statistics."""

    HYPERPARAMETERS = "hyperparameters"
    """The behavior's settings, nested dictionaries of plain values."""
    SELF_PLAY = "selfplay"
    """bool: the behavior uses self-play and has a rating."""
    MAX_STEPS = "max_steps"
    """int: the step at which training ends."""


class StatsWriter(ABC):
    """Receives the summaries of all categories; a category is a behavior's name.

    Trainers may report from several threads: calls for one category never overlap, calls for different
    categories may.
    """

    @property
    def name(self) -> str:
        """The name used in messages."""
        return type(self).__name__

    @abstractmethod
    def write_stats(self, category: str, values: Mapping[str, StatsSummary], step: int) -> None:
        """Write the summary of `step`; `values` has what was reported since the last one, by key."""

    def write_between(self, category: str, values: Mapping[str, StatsSummary], step: int) -> None:
        """Write statistics of `step` alone, such as an evaluation's; by default as a summary."""
        self.write_stats(category, values, step)

    def add_video(self, category: str, key: str, gif: bytes, size: tuple[int, int], step: int) -> None:  # noqa: B027
        """Write an animation of (width, height) pixels that belongs to `step`."""

    def on_add_stat(  # noqa: B027 (optional)
        self,
        category: str,
        key: str,
        value: float,
        aggregation: StatsAggregationMethod,
    ) -> None:
        """Called for every single value if a writer overrides it (each value then costs a call)."""

    def add_property(self, category: str, property_type: StatsPropertyType, value: Any) -> None:  # noqa: B027
        """Called once per category and property."""

    def close(self) -> None:  # noqa: B027
        """The run is over: write what is pending, close files."""


def hyperparameter_text(settings: Mapping[str, Any], level: int = 0) -> str:
    """One line `<tab><key>:<tab><value>` per setting; nested ones follow, indented by two more spaces."""
    lines = []
    for key, value in settings.items():
        nested = isinstance(value, Mapping)
        lines.append(f"\t{'  ' * level}{key}:\t{'' if nested else value}")
        if nested:  # an empty line if it is empty
            lines.append(hyperparameter_text(value, level + 1))
    return "\n".join(lines)


def flattened(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` -> `{"a.b": 1}`; lists stay as they are."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            flat.update(flattened(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat
