"""How a policy is taught by demonstrations."""

from __future__ import annotations

from pydantic import Field

from ..settings.base import Settings, own
from ..settings.values import Flag, Integer, Number, Text


class BehavioralCloningSettings(Settings):
    """Before each update, the policy also imitates a demonstration."""

    demo_path: Text
    """A .demo file, or a folder of them."""
    steps: Integer = Field(default=0, ge=0)
    """Trainer steps over which the imitation fades out. 0: it stays."""
    strength: Number = 1.0
    """Learning rate of imitation, as a factor of the policy's."""
    samples_per_update: Integer = Field(default=0, ge=0)
    """At most this many demonstrated steps per update. 0: all."""
    num_epoch: Integer | None = Field(default=None, ge=1)
    """Passes over the demonstration in each update. Not given: 3."""
    batch_size: Integer | None = Field(default=None, ge=1)
    """Demonstrated steps in one gradient step. Not given: hyperparameters.batch_size."""
    engine_actions: Flag = own(False)
    """Compare continuous actions as the engine gets them, the policy's by its mean. false: what the policy
    draws, before it is clamped and scaled, so that what is learnt comes out about three times too small."""
