"""Helpers for callbacks that need an optional package."""

from __future__ import annotations

from ..utils.errors import TrainerError


def not_installed(program: str, module: str, package: str, error: ImportError) -> TrainerError:
    """The error for a program whose module could not be imported: it is missing or broken.

    Args:
        program: its name.
        module: of it.
        package: what pip calls it.
        error: what the import raised.
    """
    if error.name == module:
        return TrainerError(f"{program} is not installed: pip install {package}")
    return TrainerError(f"{program} is installed, but cannot be imported: {error}")
