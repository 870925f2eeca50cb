"""The hyperparameters of PPO."""

from typing import Any

from pydantic import Field

from ..settings.base import own
from ..settings.hyperparameters import OnPolicyHyperparamSettings, ScheduleType
from ..settings.values import Flag, Integer, Number


def _as_learning_rate(data: dict[str, Any]) -> ScheduleType:
    schedule: ScheduleType = data.get("learning_rate_schedule", ScheduleType.LINEAR)
    return schedule


class ClippedObjectiveSettings(OnPolicyHyperparamSettings):
    """What trainers with PPO's clipped objective have."""

    learning_rate_schedule: ScheduleType = ScheduleType.LINEAR
    """linear: falls to 0 at max_steps; constant: stays."""
    beta: Number = Field(default=5e-3, ge=0)
    """Strength of the entropy bonus, which keeps the policy exploring. Raise it if entropy falls too fast."""
    epsilon: Number = Field(default=0.2, ge=0)
    """How far the probability of an action may move in one update before its gradient is cut off."""
    lambd: Number = Field(default=0.95, ge=0, le=1)
    """Lambda of generalised advantage estimation: low trusts the value estimate, high the rewards seen."""
    beta_schedule: ScheduleType = Field(default_factory=_as_learning_rate)
    """linear: beta falls to 1e-5 at max_steps; constant: stays. Not given: as learning_rate_schedule."""
    epsilon_schedule: ScheduleType = Field(default_factory=_as_learning_rate)
    """linear: epsilon goes to 0.1 at max_steps; constant: stays. Not given: as learning_rate_schedule."""


class PPOSettings(ClippedObjectiveSettings):
    """Proximal policy optimisation."""

    yaml_order = (
        "batch_size",
        "buffer_size",
        "learning_rate",
        "beta",
        "epsilon",
        "lambd",
        "num_epoch",
        "shared_critic",
        "learning_rate_schedule",
        "beta_schedule",
        "epsilon_schedule",
    )

    num_epoch: Integer = Field(default=3, ge=1)
    """Passes over the buffer in each update. Fewer are more stable and slower."""
    shared_critic: Flag = False
    """One body for policy and value estimate instead of two. Saves time with images, may learn less well."""
    clip_value_loss: Flag = own(False)
    """Bound how far a value estimate moves in one update, by epsilon. ML-Agents means to, but never does."""
