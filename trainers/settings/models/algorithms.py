"""The hyperparameters of the algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, ValidationInfo

from ..base import Flag, Integer, Number, Text, found, own, refuse
from ..errors import Problem, note
from .hyperparameters import (
    HyperparamSettings,
    LearningRate,
    OnPolicyHyperparamSettings,
    ReplaySettings,
    ScheduleType,
)


def _as_learning_rate(data: dict[str, Any]) -> ScheduleType:
    schedule: ScheduleType = data.get("learning_rate_schedule", ScheduleType.LINEAR)
    return ScheduleType.LINEAR if schedule is ScheduleType.ADAPTIVE_KL else schedule


class ClippedObjectiveSettings(OnPolicyHyperparamSettings):
    """Hyperparameters of trainers with PPO's clipped objective."""

    yaml_order: ClassVar[tuple[str, ...]] = (
        *("batch_size", "buffer_size", "learning_rate", "beta", "epsilon", "lambd", "num_epoch"),
    )

    learning_rate_schedule: ScheduleType = ScheduleType.LINEAR
    """linear: falls to 0 at max_steps; constant: stays."""
    beta: Number = Field(default=5e-3, ge=0)
    """Strength of the entropy bonus, which keeps the policy exploring. Raise it if entropy falls too fast."""
    epsilon: Number = Field(default=0.2, ge=0)
    """How far the probability of an action may move in one update before its gradient is cut off."""
    lambd: Number = Field(default=0.95, ge=0, le=1)
    """Lambda of generalized advantage estimation: low trusts the value estimate, high the rewards seen."""
    beta_schedule: ScheduleType = Field(default_factory=_as_learning_rate)
    """linear: beta falls to 1e-5 at max_steps; constant: stays. Not given: as learning_rate_schedule."""
    epsilon_schedule: ScheduleType = Field(default_factory=_as_learning_rate)
    """linear: epsilon goes to clip_end at max_steps; constant: stays. Not given: as
    learning_rate_schedule."""
    clip_end: Number = own(0.1, ge=0)
    """Where a linear epsilon_schedule ends."""


class AdvantageNormalization(str, Enum):
    """Over which steps advantages are normalized."""

    BUFFER = "buffer"
    MINIBATCH = "minibatch"
    NONE = "none"


def _without_normalization(value: Any) -> Any:
    return AdvantageNormalization.NONE if value is False else value


class ProbabilityRatio(str, Enum):
    """Of which probabilities the ratio of the clipped objective is."""

    COMPONENT = "component"
    JOINT = "joint"


class PaddedObjectiveSettings(ClippedObjectiveSettings):
    """Hyperparameters of trainers with a value of states, which pad sequences."""

    adapts_learning_rate: ClassVar[bool] = True
    learning_rate_schedule: ScheduleType = ScheduleType.LINEAR
    """linear: falls to 0 at max_steps; constant: stays; adaptive_kl: divided by 1.5 at a minibatch where the
    policy has moved by more than 2 target_kl, multiplied by that where by less than half of it; a resumed run
    goes on with the rate that it had, whatever learning_rate says."""
    value_coefficient: Number = own(0.5, ge=0)
    """Weight of the value loss beside that of the policy: what a network that both share learns for."""
    normalize_advantages: Annotated[AdvantageNormalization, BeforeValidator(_without_normalization)] = own(
        AdvantageNormalization.BUFFER
    )
    """Subtract the advantages' mean and divide by their deviation. buffer: those of all steps of an update,
    as in ML-Agents; minibatch: those of each minibatch; none (or false): leave them as they are."""
    ratio: ProbabilityRatio = own(ProbabilityRatio.COMPONENT)
    """What epsilon clips. component: how far the probability of each continuous action and each branch has
    moved, as in ML-Agents; joint: that of the whole action, their product, as in most other libraries."""
    target_kl: Number | None = own(None, gt=0)
    """End an update before the minibatch at which the policy is further than 1.5 times this from the one that
    acted (approximate KL divergence, mean over what ratio says); 0.01 to 0.05 is common. null: never. With
    learning_rate_schedule adaptive_kl no update ends early; null is 0.01 there."""

    normalize_padding: Flag = own(True)
    """With a memory, count the padding of sequences in the mean and deviation that normalize advantages, as
    ML-Agents does. false: only real steps."""
    normalize_values: Flag = own(False)
    """Learn values in units of the returns' running mean and deviation (PopArt): for rewards that are far
    from 1, or whose size is not known before. clip_value_loss then counts in these units too."""
    normalize_rewards: Flag = own(False)
    """Divide each signal's rewards by the running standard deviation of their discounted return, and clip
    them to 10, before they are learned from; the signal's strength multiplies what is divided. With
    normalize_values too, values are learned in units of the returns of these rewards."""


class PPOSettings(PaddedObjectiveSettings):
    """Proximal policy optimization."""

    yaml_order = (*ClippedObjectiveSettings.yaml_order, "shared_critic")

    num_epoch: Integer = Field(default=3, ge=1)
    """Passes over the buffer in each update. Fewer are more stable and slower."""
    shared_critic: Flag = False
    """One body for policy and value estimate instead of two. Saves time with images, may learn less well."""
    clip_value_loss: Flag = own(False)
    """Bound how far a value estimate moves in one update, by epsilon. ML-Agents means to, but never does."""


class BaselineClip(str, Enum):
    """How far a baseline may move in one update before the clipped error counts."""

    REWARD = "reward"
    DEVIATION = "deviation"
    NONE = "none"


class POCASettings(PaddedObjectiveSettings):
    """Posthumous credit assignment."""

    baseline_clip: BaselineClip = own(BaselineClip.REWARD)
    """Unit of the epsilon by which a baseline may move in one update. reward: as in ML-Agents, that of the
    reward, so that baselines of large returns learn slowly; deviation: the standard deviation of the returns;
    none: baselines are not clipped, as values are not."""


class MAPPOSettings(PaddedObjectiveSettings):
    """Multi-agent PPO, for teams."""

    yaml_order = ()
    normalize_padding: Flag = False
    """With a memory, count the padding of sequences in the mean and deviation that normalize advantages."""
    clip_value_loss: Flag = False
    """Bound how far a value estimate moves in one update, by epsilon."""


class TeamRewardKind(str, Enum):
    """How the members' own rewards become the team's."""

    MEAN = "mean"
    SUM = "sum"


class COMASettings(ClippedObjectiveSettings):
    """Counterfactual multi-agent policy gradients. For teams with discrete actions."""

    yaml_order = ()
    learns_sequences: ClassVar[bool] = False  # but from whole trajectories
    lambd: Number = Field(default=0.95, ge=0, le=1)
    """Lambda of the critic's TD(lambda) targets: low trusts the target critic, high the rewards seen."""
    max_num_agents: Integer = Field(default=8, ge=1)
    """Slots of a group: the most members that a group has in one episode, including those that have died."""
    reward: TeamRewardKind = TeamRewardKind.MEAN
    """The team's reward for a step: the group reward plus the mean, or the sum, of the members' own."""
    state_observation: Text | None = None
    """The sensor that holds the global state, which only the critic reads. null: the global state of a
    PettingZoo environment that has one, else all observations."""
    clip: Flag = True
    """Several epochs with PPO's clipped objective. false: one policy gradient step, as first published."""
    critic_epochs: Integer = Field(default=10, ge=1)
    """Passes of the critic over the buffer in each update, before the actors learn from its advantages."""
    critic_learning_rate: LearningRate | None = Field(default=None, ge=0)
    """The same as learning_rate, for the critic. null: learning_rate."""
    target_update_interval: Integer = Field(default=100, ge=1)
    """Gradient steps of the critic after which the target critic becomes a copy of it."""
    tau: Number | None = Field(default=None, gt=0, le=1)
    """Soft updates instead of copies: the share of the critic that moves into the target critic per gradient
    step."""
    normalize_values: Flag = False
    """Learn values scaled by the running mean and variance of their targets. The variance starts at 1 and
    adapts slowly to rewards of about 0.001: for these, raise the reward signal's strength instead."""
    epsilon_start: Number = Field(default=0.1, ge=0, le=1)
    """Probability of a random action at the start (exploration; `epsilon` is the clip range)."""
    epsilon_end: Number = Field(default=0.01, ge=0, le=1)
    """The same from epsilon_decay_steps on."""
    epsilon_decay_steps: Integer = Field(default=100000, ge=0)
    """Trainer steps over which that probability changes linearly from start to end."""
    share_parameters: Flag = True
    """One actor and one critic for all slots; false: one of each per slot."""
    index_on_actor: Flag = False
    """Give the slot's index to the shared actor too, not only to the critic."""


def reads_offered_state(hyperparameters: HyperparamSettings) -> bool:
    """Whether a behavior's critic takes the global state from the environment, without naming a sensor."""
    return isinstance(hyperparameters, COMASettings) and hyperparameters.state_observation is None


class SACRecipe(str, Enum):
    """Which networks SAC has, and how they learn."""

    MLAGENTS = "mlagents"
    SIMBA = "simba"


def _initial_coefficient(data: dict[str, Any]) -> float:
    return 0.01 if data.get("recipe") is SACRecipe.SIMBA else 1.0


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
    """Share of the value network that moves into the target network at every gradient step."""
    recipe: SACRecipe = own(SACRecipe.MLAGENTS)
    """mlagents: SAC with a state value, as in ML-Agents. simba: without one, on residual networks with
    normalized observations and AdamW; for environments whose steps are expensive. It sets
    network_settings.normalize and residual, and has no memory."""
    init_entcoef: Number = Field(default_factory=_initial_coefficient, gt=0)
    """Initial entropy coefficient: a higher one explores more at first. Not given: 1, or 0.01 with recipe
    simba."""
    entropy_coefficient: Number | None = own(None, gt=0)
    """Weight of the entropy, of all kinds of actions, which then stays: init_entcoef and target_entropy have
    no effect. null: it is learned."""
    target_entropy: Number | None = own(None)
    """Entropy of the continuous actions together that the learned coefficient aims at, in nats. null: minus
    their number, or half of that with recipe simba."""
    burn_in_ratio: Number = own(0.0, ge=0, lt=1)
    """Share of each sequence, from its start, that only warms up the memory, without a loss."""


class DQNSettings(ReplaySettings):
    """Deep Q-learning. For discrete actions."""

    double: Flag = True
    """Choose the next action with the network and value it with the target network: overestimates less."""
    dueling: Flag = False
    """A head for the value of the state beside one for the advantages of the actions."""
    target_update_interval: Integer = Field(default=1000, ge=1)
    """Updates (gradient steps) after which the target network becomes a copy of the network."""
    tau: Number | None = Field(default=None, gt=0, le=1)
    """Soft updates instead of copies: the share of the network that moves into the target network per
    step."""
    epsilon_start: Number = Field(default=1.0, ge=0, le=1)
    """Probability of a random action at the start; each agent decides independently."""
    epsilon_end: Number = Field(default=0.05, ge=0, le=1)
    """The same from epsilon_decay_steps on."""
    epsilon_decay_steps: Integer = Field(default=50000, ge=0)
    """Trainer steps over which that probability changes linearly from start to end."""


EXPLORATION = frozenset({"exploration_schedule", "exploration_initial_eps", "exploration_final_eps"})
"""The keys of epsilon in the DQN that ML-Agents' example plug-in brings."""
_DECAY_STEPS = 20_000
"""Trainer steps over which that plug-in's epsilon falls, whatever max_steps is."""


def exploration_of_mlagents(hyperparameters: Mapping[str, Any], info: ValidationInfo) -> dict[str, Any]:
    """DQN's hyperparameters with epsilon under our names, and the plug-in's defaults of what is not given."""
    schedule = hyperparameters.get("exploration_schedule", "linear")
    if schedule not in ("linear", "constant"):
        message = f"found {found(schedule)}, expected linear or constant"
        raise refuse("DQNSettings", Problem(("hyperparameters", "exploration_schedule"), message))
    names = {"epsilon_start": "exploration_initial_eps", "epsilon_end": "exploration_final_eps"}
    given = {own: hyperparameters[other] for own, other in names.items() if other in hyperparameters}
    rest = {key: value for key, value in hyperparameters.items() if key not in EXPLORATION}
    usual = {"epsilon_start": 0.1, "epsilon_end": 0.05, "epsilon_decay_steps": _DECAY_STEPS}
    taken = {**usual, **rest, **given}
    if schedule == "constant":
        taken["epsilon_end"] = taken["epsilon_start"]
    note(
        info,
        f"{', '.join(sorted(EXPLORATION & hyperparameters.keys()))} of ML-Agents' DQN plug-in are taken as "
        + ", ".join(f"{key}: {taken[key]}" for key in usual)
        + ".",
    )
    return taken


class NoiseType(str, Enum):
    """How the noise of one step depends on that of the previous step."""

    GAUSSIAN = "gaussian"
    ORNSTEIN_UHLENBECK = "ornstein_uhlenbeck"


class DeterministicPolicySettings(ReplaySettings):
    """Hyperparameters of trainers of deterministic policies."""

    tau: Number = Field(default=0.005, gt=0, le=1)
    """Share of the networks that moves into their target networks at every gradient step."""
    noise_type: NoiseType = NoiseType.GAUSSIAN
    """gaussian: independent at every step; ornstein_uhlenbeck: correlated over time, so it drifts."""
    noise_start: Number = Field(default=0.2, ge=0)
    """Standard deviation of the action noise at the start; actions range from -1 to 1 and are clipped
    there."""
    noise_end: Number = Field(default=0.05, ge=0)
    """The same from noise_decay_steps on."""
    noise_decay_steps: Integer = Field(default=100000, ge=0)
    """Trainer steps over which the deviation changes linearly from start to end."""
    noise_theta: Number = own(0.15, gt=0, le=1)
    """Part of the ornstein_uhlenbeck noise that decays in a step: less drifts longer."""
    noise_dt: Number | None = own(None, gt=0, le=1)
    """Seconds of a step in Stable-Baselines3's ornstein_uhlenbeck noise x + noise_theta dt (-x) + deviation
    sqrt(dt) normal, often 0.01, where noise_start and noise_end are its sigma. null: they are the deviation
    that the noise reaches, and dt is 1."""


class DDPGSettings(DeterministicPolicySettings):
    """Deep deterministic policy gradients. For continuous actions."""


class TD3Settings(DeterministicPolicySettings):
    """Twin delayed deterministic policy gradients. For continuous actions."""

    policy_delay: Integer = Field(default=2, ge=1)
    """Gradient steps of the critics per gradient step of the policy."""
    target_noise: Number = Field(default=0.2, ge=0)
    """Standard deviation of the noise on the target actions, which smooths the targets."""
    target_noise_clip: Number = Field(default=0.5, ge=0)
    """Bound of that noise."""
