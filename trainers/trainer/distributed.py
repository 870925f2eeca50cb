"""A behavior that several ranks learn: the settings of one of them, and the state of each alone."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ..settings.models.behavior import TrainerSettings
from ..utils.distributed import rank, seed_of, world_size

logger = logging.getLogger(__name__)

SEED_STRIDE = 100_003
"""Between the seeds of ranks: more than parts of a run have seeds of their own."""
_OF_ONE_RANK = frozenset(
    [
        "acting",
        "buffer",
        "drawing",
        "random",
        "record",
        "returns",
        "signal_learning",
        "states",
    ]
)
"""Entries of a checkpoint that each rank has for itself, besides the generators of its algorithm."""


def rank_seed(run_seed: int) -> int:
    """The seed of what this rank samples."""
    return seed_of(run_seed, SEED_STRIDE * rank()) if rank() else run_seed


def rank_settings(settings: TrainerSettings) -> TrainerSettings:
    """The settings of a behavior for one rank: buffers and minibatches are divided among all."""
    ranks = world_size()
    if ranks == 1:
        return settings
    hyper, cloning = settings.hyperparameters, settings.behavioral_cloning
    shares = {key: max(getattr(hyper, key) // ranks, 1) for key in ("batch_size", "buffer_size")}
    if cloning is not None:  # it divides minibatches itself, whose number depends on their size
        cloning = cloning.model_copy(update={"batch_size": cloning.batch_size or hyper.batch_size})
    if settings.threaded and rank() == 0:
        logger.info("threaded has no effect with several learners, which all update at the same time.")
    return settings.model_copy(
        update={
            "hyperparameters": hyper.model_copy(update=shares),
            "behavioral_cloning": cloning,
            "threaded": False,
        }
    )


def rank_state(state: Mapping[str, Any], generators: Collection[str]) -> dict[str, Any]:
    """The part of a checkpoint's state that each rank has for itself."""
    found: dict[str, Any] = {}
    for key, value in state.items():
        if key in _OF_ONE_RANK or key in generators:
            found[key] = value
        elif isinstance(value, dict) and (inner := rank_state(value, generators)):
            found[key] = inner
    return found


def with_rank_state(state: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Rank 0's state with what `rank_state` found in this rank's."""
    joined = dict(state)
    for key, value in own.items():
        nested = isinstance(value, dict) and isinstance(joined.get(key), dict) and key not in _OF_ONE_RANK
        joined[key] = with_rank_state(joined[key], value) if nested else value
    return joined


def rank_file(folder: Path) -> Path:
    """What this rank saves of a behavior besides rank 0's checkpoint, into the behavior's folder."""
    return folder / "ranks" / f"{rank()}.pt"
