"""The hyperparameters of TD3."""

from __future__ import annotations

from pydantic import Field

from ..ddpg.settings import DeterministicPolicySettings
from ..settings.values import Integer, Number


class TD3Settings(DeterministicPolicySettings):
    """Twin delayed deterministic policy gradients. For continuous actions."""

    policy_delay: Integer = Field(default=2, ge=1)
    """Gradient steps of the critics for each of the policy."""
    target_noise: Number = Field(default=0.2, ge=0)
    """Deviation of the noise on the actions that the targets value, which smooths them."""
    target_noise_clip: Number = Field(default=0.5, ge=0)
    """Bound of that noise."""
