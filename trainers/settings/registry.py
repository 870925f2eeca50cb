"""Which trainers there are, by the names that `trainer_type` takes."""

from __future__ import annotations

from dataclasses import dataclass

from ..coma.settings import COMASettings
from ..poca.settings import POCASettings
from ..ppo.settings import PPOSettings
from ..sac.settings import SACSettings
from .hyperparameters import HyperparamSettings


@dataclass(frozen=True)
class TrainerType:
    """One kind of trainer, as the settings know it."""

    settings: type[HyperparamSettings]
    """The model of its hyperparameters."""
    available: bool = True
    """Whether this version can train it. Its settings are read and checked in any case."""
    recurrent: bool = False
    """Whether it trains policies with a memory."""


trainer_types: dict[str, TrainerType] = {
    "ppo": TrainerType(PPOSettings, recurrent=True),
    "sac": TrainerType(SACSettings, available=False),
    "coma": TrainerType(COMASettings, recurrent=True),
    "poca": TrainerType(POCASettings, recurrent=True),
}
"""Open for more: a new entry makes its name known as a `trainer_type`."""
