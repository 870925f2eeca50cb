"""What is said where a package of others is not there.

The settings of a run as one level of names, as trackers of experiments want them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..utils.errors import TrainerError


def not_installed(program: str, module: str, package: str, error: ImportError) -> TrainerError:
    """The error for a program whose module could not be imported: it is lacking, or broken.

    Args:
        program: its name.
        module: of it.
        package: what pip calls it.
        error: what the import raised.
    """
    if error.name == module:
        return TrainerError(f"{program} is not installed: pip install {package}")
    return TrainerError(f"{program} is installed, but cannot be imported: {error}")


def flattened(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` -> `{"a.b": 1}`; lists stay as they are."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            flat.update(flattened(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat
