"""The hyperparameters of DQN."""

from __future__ import annotations

from pydantic import Field

from ..settings.hyperparameters import ReplaySettings
from ..settings.values import Flag, Integer, Number


class DQNSettings(ReplaySettings):
    """Deep Q-learning. For discrete actions."""

    double: Flag = True
    """Choose the next action by the network and value it by the target network, which overestimates less."""
    dueling: Flag = False
    """A head for the value of the state beside one for the advantages of the actions."""
    target_update_interval: Integer = Field(default=1000, ge=1)
    """Updates (gradient steps) after which the target network becomes a copy of the network."""
    tau: Number | None = Field(default=None, gt=0, le=1)
    """Share of the network that the target network takes over at every gradient step, in place of copies."""
    epsilon_start: Number = Field(default=1.0, ge=0, le=1)
    """Share of actions by chance at the start; every agent tosses its own coin."""
    epsilon_end: Number = Field(default=0.05, ge=0, le=1)
    """The same from epsilon_decay_steps on."""
    epsilon_decay_steps: Integer = Field(default=50000, ge=0)
    """Trainer steps in which the share of chance goes, on a straight line, from start to end."""
