"""The hyperparameters of SAC."""

from __future__ import annotations

from pydantic import Field

from ..settings.base import own
from ..settings.hyperparameters import ReplaySettings
from ..settings.values import Number


class SACSettings(ReplaySettings):
    """Soft actor-critic."""

    yaml_order = (
        "learning_rate",
        "learning_rate_schedule",
        "batch_size",
        "buffer_size",
        "buffer_init_steps",
        "tau",
        "steps_per_update",
        "save_replay_buffer",
        "init_entcoef",
        "reward_signal_steps_per_update",
    )

    tau: Number = Field(default=0.005, ge=0, le=1)
    """Share of the value network that the target network takes over at every gradient step."""
    init_entcoef: Number = Field(default=1.0, gt=0)
    """Entropy coefficient to begin with: higher explores more at first."""
    burn_in_ratio: Number = own(0.0, ge=0, lt=1)
    """Share of each sequence, from its begin, that only brings the memory up to date, without a loss."""
