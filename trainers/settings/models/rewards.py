"""The settings of reward signals and of behavioral cloning."""

from __future__ import annotations

from enum import Enum
from typing import Any

from pydantic import Field, ValidationInfo, field_validator, model_validator

from ..base import Flag, Integer, Number, Settings, Text, own, refuse
from ..errors import Problem, note
from .hyperparameters import LearningRate
from .networks import NetworkSettings


class RewardSignalType(str, Enum):
    """The kinds of reward signal."""

    EXTRINSIC = "extrinsic"
    GAIL = "gail"
    CURIOSITY = "curiosity"
    RND = "rnd"


class RewardSignalSettings(Settings):
    """Settings of every reward signal; the environment's rewards (extrinsic) have no others."""

    gamma: Number = Field(default=0.99, ge=0, le=1)
    """Discount of future rewards: how far ahead the agent looks, about 1 / (1 - gamma) decisions."""
    strength: Number = 1.0
    """Factor of this signal."""
    network_settings: NetworkSettings = Field(default_factory=NetworkSettings)
    """The signal's own network, where it has one."""

    @field_validator("network_settings")
    @classmethod
    def _no_critic(cls, value: NetworkSettings) -> NetworkSettings:
        if value.critic is not None:
            raise refuse(
                "NetworkSettings", Problem(("critic",), "a reward signal has no critic: remove this key")
            )
        if value.critic_only_observations:
            message = "a reward signal reads all observations: remove this key"
            raise refuse("NetworkSettings", Problem(("critic_only_observations",), message))
        return value


class LearnedRewardSettings(RewardSignalSettings):
    """Settings of signals with a network of their own."""

    learning_rate: LearningRate = 3e-4
    """Size of this signal's gradient steps."""
    encoding_size: Integer | None = Field(default=None, ge=1)
    """Deprecated: use network_settings.hidden_units."""

    @field_validator("network_settings")
    @classmethod
    def _no_memory(cls, value: NetworkSettings, info: ValidationInfo) -> NetworkSettings:
        if value.memory is None:
            return value
        note(info, "memory was specified in network_settings, and a reward signal has none: it is ignored.")
        return value.model_copy(update={"memory": None})

    @model_validator(mode="before")
    @classmethod
    def _old_width(cls, data: Any, info: ValidationInfo) -> Any:
        if isinstance(data, dict) and data.get("encoding_size") is not None:
            note(info, "'encoding_size' was deprecated for RewardSignals. Please use network_settings.")
            if "network_settings" not in data:
                return {**data, "network_settings": {"hidden_units": data["encoding_size"]}}
        return data


class CuriositySettings(LearnedRewardSettings):
    """A reward for what a forward model fails to predict."""


class RNDSettings(LearnedRewardSettings):
    """A reward for novel observations, by random network distillation."""

    learning_rate: LearningRate = 1e-4
    """Size of this signal's gradient steps."""


class GAILSettings(LearnedRewardSettings):
    """A reward for acting like a demonstration."""

    demo_path: Text
    """A .demo file, or a folder of them."""
    use_actions: Flag = False
    """Compare actions too, not only observations."""
    use_vail: Flag = False
    """A variational bottleneck in the discriminator: steadier, slower."""
    engine_actions: Flag = own(False)
    """With use_actions: compare continuous actions as the engine receives them, not as the policy samples
    them."""
    partial_demos: Flag = own(False)
    """Learn from the whole pairs of a demonstration that is cut off, as by a crash. false: refuse it."""
    absorbing_states: Flag = own(False)
    """Reward without a bias for staying or ending (DAC): ln D - ln(1 - D), and after an episode's end the
    reward of an absorbing state, which is learned. false: -ln(1 - D), never negative, and 0 after the end,
    which pays for staying."""

    @model_validator(mode="after")
    def _sums_of_absorbing_rewards(self) -> GAILSettings:
        if self.absorbing_states and self.gamma >= 1.0:
            message = (
                f"found {self.gamma:g} with absorbing_states: true, whose rewards never end and would add up "
                "without a limit: set gamma below 1, such as 0.99, or remove absorbing_states"
            )
            raise self._refusal("gamma", message)
        return self


REWARD_SIGNAL_SETTINGS: dict[str, type[RewardSignalSettings]] = {
    RewardSignalType.EXTRINSIC.value: RewardSignalSettings,
    RewardSignalType.CURIOSITY.value: CuriositySettings,
    RewardSignalType.GAIL.value: GAILSettings,
    RewardSignalType.RND.value: RNDSettings,
}
"""The settings of each built-in reward signal."""


class BehavioralCloningSettings(Settings):
    """Before each update, the policy also imitates a demonstration."""

    demo_path: Text
    """A .demo file, or a folder of them."""
    steps: Integer = Field(default=0, ge=0)
    """Trainer steps over which imitation fades out. 0: it does not fade."""
    strength: Number = 1.0
    """Learning rate of imitation, as a factor of the policy's."""
    samples_per_update: Integer = Field(default=0, ge=0)
    """At most this many demonstrated steps per update. 0: all."""
    num_epoch: Integer | None = Field(default=None, ge=1)
    """Passes over the demonstration in each update. Not given: 3."""
    batch_size: Integer | None = Field(default=None, ge=1)
    """Demonstrated steps in one gradient step. Not given: hyperparameters.batch_size."""
    engine_actions: Flag | None = own(None)
    """Compare continuous actions as the engine receives them, taking the policy's mean. false: compare what
    the policy samples, before it is clamped and scaled, so that PPO's and POCA's learned actions come out
    about three times too small. Not given: true, but false with the trainers that ML-Agents has (ppo, poca,
    sac), whose YAML learns as it does there."""
    partial_demos: Flag = own(False)
    """Learn from the whole pairs of a demonstration that is cut off, as by a crash. false: refuse it."""


class DemonstrationsSettings(Settings):
    """A share of every minibatch is demonstrated steps with their rewards (RLPD); of off-policy trainers."""

    demo_path: Text
    """A .demo file, or a folder of them."""
    share: Number = Field(default=0.5, gt=0, lt=1)
    """Share of each minibatch's steps, with a memory of its sequences, that is drawn from the demonstrations;
    at least one of them, and one of the replay."""
    partial_demos: Flag = False
    """Learn from the whole pairs of a demonstration that is cut off, as by a crash. false: refuse it."""


class CloningMethod(str, Enum):
    """What `lanista clone` makes of the actions in demonstrations."""

    BC = "bc"
    IQL = "iql"


class IQLSettings(Settings):
    """How implicit Q-learning finds which actions are worth imitating."""

    expectile: Number = Field(default=0.7, ge=0.5, lt=1)
    """The value of a situation is this expectile of the returns of what was done there. 0.5: their mean;
    towards 1: the best of them, the lucky ones too."""
    inverse_temperature: Number = Field(default=3.0, ge=0)
    """How much more better actions weigh: exp(inverse_temperature * advantage), advantages in units of their
    root mean square. 0: all the same."""
    tau: Number = Field(default=0.005, gt=0, le=1)
    """How far the slow copy of the action values moves towards them in each gradient step."""


class CloneSettings(Settings):
    """What `lanista clone` learns from, and how long. Its flags set this; lanista-learn does not read it."""

    demos: list[Text] = Field(min_length=1)
    """The demonstrations: .demo files, folders of them, or saved replays (.replay)."""
    method: CloningMethod = own(CloningMethod.BC)
    """bc: imitate all actions alike (behavioral cloning). iql: imitate those more that earned more than
    others in the same situation (implicit Q-learning); for demonstrations that are not all good."""
    iql: IQLSettings | None = own(None)
    """Settings of method iql. Not given: their defaults."""
    gradient_steps: Integer = Field(default=5000, ge=1)
    """Gradient steps in all. The learning rate falls to 0 until the last."""
    held_out: Number = Field(default=0.1, ge=0, lt=1)
    """Share of the episodes that are not learned from, but show how well the policy predicts the expert's
    actions. At least one episode, unless it is 0."""

    @model_validator(mode="after")
    def _settings_of_the_method(self) -> CloneSettings:
        if self.iql is not None and self.method is not CloningMethod.IQL:
            message = "found a section, and method: bc has no settings: set method: iql, or remove this"
            raise self._refusal("iql", message)
        return self
