"""The hyperparameters of COMA."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from pydantic import Field

from ..ppo.settings import ClippedObjectiveSettings
from ..settings.hyperparameters import HyperparamSettings
from ..settings.values import Flag, Integer, Number, Text


class TeamRewardKind(str, Enum):
    """How the members' own rewards become the team's."""

    MEAN = "mean"
    SUM = "sum"


class COMASettings(ClippedObjectiveSettings):
    """Counterfactual multi-agent policy gradients. For teams with discrete actions."""

    learns_sequences: ClassVar[bool] = False  # but from whole trajectories
    lambd: Number = Field(default=0.95, ge=0, le=1)
    """Lambda of the critic's TD(lambda) targets: low trusts the target critic, high the rewards seen."""
    max_num_agents: Integer = Field(default=8, ge=1)
    """Places in a group's roster: the most members that a group has in one episode, the dead counted."""
    reward: TeamRewardKind = TeamRewardKind.MEAN
    """What the team earns in a step: the group's reward and the mean, or the sum, of the members' own."""
    state_observation: Text | None = None
    """The sensor that holds the state of the world. The critic alone reads it. null: the global state of a
    PettingZoo environment that has one, else all observations."""
    clip: Flag = True
    """Several epochs with PPO's clipped objective. false: one policy gradient step, as first published."""
    target_update_interval: Integer = Field(default=1, ge=1)
    """Updates after which the target critic becomes a copy of the critic."""
    tau: Number | None = Field(default=None, gt=0, le=1)
    """Share of the critic that the target critic takes over at every update, in place of copies."""
    normalize_values: Flag = False
    """Learn values scaled by the running mean and variance of their targets."""
    epsilon_start: Number = Field(default=0.1, ge=0, le=1)
    """Share of chance in the policy at the start: of exploration, beside `epsilon`, which clips."""
    epsilon_end: Number = Field(default=0.01, ge=0, le=1)
    """The same from epsilon_decay_steps on."""
    epsilon_decay_steps: Integer = Field(default=100000, ge=0)
    """Trainer steps in which the share of chance goes, on a straight line, from start to end."""
    share_parameters: Flag = True
    """One actor and one critic for all places, or, with false, one of each for every place."""
    index_on_actor: Flag = False
    """Tell the shared actor its place too, not the critic alone."""


def reads_offered_state(hyperparameters: HyperparamSettings) -> bool:
    """Whether a behaviour's critic takes the global state from the environment, without naming a sensor."""
    return isinstance(hyperparameters, COMASettings) and hyperparameters.state_observation is None
