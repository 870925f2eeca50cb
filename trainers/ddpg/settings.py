"""The hyperparameters of DDPG."""

from __future__ import annotations

from enum import Enum

from pydantic import Field

from ..settings.hyperparameters import ReplaySettings
from ..settings.values import Integer, Number


class NoiseType(str, Enum):
    """How the noise of one step depends on that of the step before."""

    GAUSSIAN = "gaussian"
    ORNSTEIN_UHLENBECK = "ornstein_uhlenbeck"


class DeterministicPolicySettings(ReplaySettings):
    """What trainers of deterministic policies have."""

    tau: Number = Field(default=0.005, gt=0, le=1)
    """Share of the networks that their target networks take over at every gradient step."""
    noise_type: NoiseType = NoiseType.GAUSSIAN
    """gaussian: new at every step; ornstein_uhlenbeck: it drifts, and pushes one way for a while."""
    noise_start: Number = Field(default=0.2, ge=0)
    """Deviation of the noise on actions at the start; actions reach from -1 to 1 and are clipped there."""
    noise_end: Number = Field(default=0.05, ge=0)
    """The same from noise_decay_steps on."""
    noise_decay_steps: Integer = Field(default=100000, ge=0)
    """Trainer steps in which the deviation goes, on a straight line, from start to end."""


class DDPGSettings(DeterministicPolicySettings):
    """Deep deterministic policy gradients. For continuous actions."""
