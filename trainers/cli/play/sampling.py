"""Tells when the likeliest actions earn clearly less than the sampled ones of the training did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice

import numpy as np

from ....envs.utils.bounded_yaml import finite_number
from ...checkpoints.status import TrainingStatus, TrainingStatusError
from ..models import Model
from .player import Player

FEWEST = 5
"""The fewest episodes whose mean is compared."""
ERRORS, SHARE = 3.0, 0.1
"""How much lower the mean has to be: in standard errors, and as a share of the range of all returns."""


def hints(player: Player) -> list[str]:
    """A sentence for each behavior that earned clearly less than when its model was saved.

    Not of several teams, whose returns depend on each other.
    """
    found = []
    for scores in player.counter.scores.values() if player.deterministic else ():
        ids = list(scores.seats)
        model = player.model_of.get(ids[0]) if len(ids) == 1 else None
        trained = None if model is None else trained_reward(model)
        if trained is not None and clearly_less(scores.returns, trained):
            found.append(
                f"{scores.behavior} trained to a mean reward of {_shown(trained)} with sampled actions; the "
                f"likeliest ones earn {_shown(scores.mean())} here. --sampled plays as in training."
            )
    return found


def clearly_less(rewards: Sequence[float], trained: float) -> bool:
    """Whether the mean of `rewards` is below `trained` by more than chance and by more than a trifle."""
    if len(rewards) < FEWEST:
        return False
    mean, error = float(np.mean(rewards)), float(np.std(rewards, ddof=1)) / math.sqrt(len(rewards))
    scale = max(max(*rewards, trained) - min(*rewards, trained), abs(trained), abs(mean))
    return trained - mean > max(ERRORS * error, SHARE * scale)


def trained_reward(model: Model) -> float | None:
    """The mean reward when a model was saved, by its metadata or its run's status file; None if unknown."""
    reward = getattr(model.policy, "trained_reward", None)
    folders = islice(model.source.parents, 2) if reward is None and model.of_run else ()
    for folder in folders:
        status = TrainingStatus(folder / "run_logs" / "training_status.json")
        try:
            last = status.get(model.behavior, "final_checkpoint") if status.read() else None
        except TrainingStatusError:
            return None
        if isinstance(last, dict):
            reward = last.get("reward")
    return finite_number(reward)


def _shown(reward: float) -> str:
    return f"{reward:.1f}" if abs(reward) >= 10 else f"{reward:.3f}"
