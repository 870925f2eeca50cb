"""The hyperparameters of SAC."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ..settings.hyperparameters import OffPolicyHyperparamSettings
from ..settings.values import Number


def _as_policy(data: dict[str, Any]) -> float:
    return float(data.get("steps_per_update", 1.0))


class SACSettings(OffPolicyHyperparamSettings):
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
    """How fast the target network follows the value network."""
    init_entcoef: Number = Field(default=1.0, gt=0)
    """Entropy coefficient to begin with: higher explores more at first."""
    reward_signal_steps_per_update: Number = Field(default_factory=_as_policy, gt=0)
    """The same as steps_per_update, for the networks of reward signals. Not given: as steps_per_update."""
