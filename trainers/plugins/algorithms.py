"""The algorithms of trainers that other packages bring."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..errors import TrainerError
from ..settings.registry import find_trainer
from .entry_points import cause


def algorithm_of_plugin(trainer_type: str) -> Callable[..., Any]:
    """What makes the algorithm of this `trainer_type`, imported now.

    Raises:
        TrainerError: there is none of this name in the module, or importing it failed.
    """
    trainer = find_trainer(trainer_type)
    place = trainer.algorithm if trainer is not None else ""
    module, _, name = place.partition(":")
    try:
        found: Callable[..., Any] = getattr(import_module(module), name)
    except Exception as error:
        raise TrainerError(
            f"The algorithm of trainer_type {trainer_type}, which is {place!r}, cannot be imported: "
            f"{cause(error)}. Its plug-in names it as package.module:name."
        ) from error
    return found
