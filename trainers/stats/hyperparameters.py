"""A behaviour's settings as text, for the console and for TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def hyperparameter_text(settings: Mapping[str, Any], level: int = 0) -> str:
    """One line `<tab><key>:<tab><value>` per setting; nested ones follow, indented by two more spaces."""
    lines = []
    for key, value in settings.items():
        nested = isinstance(value, Mapping)
        lines.append(f"\t{'  ' * level}{key}:\t{'' if nested else value}")
        if nested and value:
            lines.append(hyperparameter_text(value, level + 1))
    return "\n".join(lines)
