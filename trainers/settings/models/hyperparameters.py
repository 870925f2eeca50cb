"""What the hyperparameters of all trainers have in common."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from ..base import Flag, Integer, Number, Settings, own
from ..errors import note


class ScheduleType(str, Enum):
    """How a value develops over the run."""

    CONSTANT = "constant"
    LINEAR = "linear"
    ADAPTIVE_KL = "adaptive_kl"


LARGE_LEARNING_RATE = 0.01
"""Above which nothing is learned as a rule: Adam moves every weight by about the learning rate."""


def _warn_if_large(value: float, info: ValidationInfo) -> float:
    if value > LARGE_LEARNING_RATE:
        note(
            info,
            f"found {value:g}, which is too large as a rule: each gradient step moves every weight by about "
            "as much. 1e-5 to 1e-3 is usual.",
            value,
        )
    return value


LearningRate = Annotated[Number, Field(ge=0), AfterValidator(_warn_if_large)]
"""The learning rate of an Adam optimizer, with a warning where it is too large by far."""


class HyperparamSettings(Settings):
    """Hyperparameters of every trainer."""

    batch_size: Integer = Field(default=1024, ge=1)
    """Number of steps in one gradient step: for continuous actions up to 5000, for discrete ones from 32."""
    buffer_size: Integer = Field(default=10240, ge=1)
    """Steps to collect before an update: many times batch_size."""
    learning_rate: LearningRate = 3e-4
    """Size of a gradient step at the start. Lower it if training is unstable."""
    learning_rate_schedule: ScheduleType = ScheduleType.CONSTANT
    """linear: falls to 0 at max_steps; constant: stays."""
    adapts_learning_rate: ClassVar[bool] = False
    """Whether learning_rate_schedule may be adaptive_kl."""
    max_grad_norm: Number | None = own(None, gt=0)
    """A gradient with a greater Euclidean norm is scaled down to this one, so that one bad minibatch cannot
    ruin the policy; 0.5 is common. null: never."""
    adam_epsilon: Number = own(1e-8, gt=0)
    """What Adam adds to the root of the mean square of gradients that it divides by. Often 1e-5 in PPO."""
    learns_sequences: ClassVar[bool] = True
    """A memory is learned from sequences of sequence_length steps."""

    @property
    def random_steps(self) -> int:
        """The trainer step until which agents act at random while they learn."""
        return 0

    @model_validator(mode="after")
    def _adapts_what_can_be(self) -> HyperparamSettings:
        """Only a learning rate adapts to the divergence, and only where an update measures it."""
        schedules = [key for key in type(self).model_fields if key.endswith("_schedule")]
        for key in schedules:
            adapts = self.adapts_learning_rate and key == "learning_rate_schedule"
            if getattr(self, key) is ScheduleType.ADAPTIVE_KL and not adapts:
                why = "only the learning_rate_schedule of ppo, poca and mappo can adapt"
                raise self._refusal(key, f"found adaptive_kl, expected constant or linear: {why}")
        return self


class OnPolicyHyperparamSettings(HyperparamSettings):
    """Hyperparameters of on-policy trainers, which learn from fresh experience."""

    num_epoch: Integer = Field(default=3, ge=1)
    """Passes over the buffer in each update. Fewer are more stable and slower."""

    @model_validator(mode="after")
    def _has_minibatches(self, info: ValidationInfo) -> OnPolicyHyperparamSettings:
        if self.batch_size > self.buffer_size + 1:  # an update begins with more steps than buffer_size
            note(
                info,
                f"batch_size {self.batch_size} is larger than buffer_size {self.buffer_size}: updates with "
                "fewer steps than one batch change nothing. Lower batch_size or raise buffer_size.",
            )
        return self


class OffPolicyHyperparamSettings(HyperparamSettings):
    """Hyperparameters of off-policy trainers, which learn from a replay buffer."""

    batch_size: Integer = Field(default=128, ge=1)
    """Number of steps in one gradient step."""
    buffer_size: Integer = Field(default=50000, ge=1)
    """Capacity of the replay, in steps."""
    buffer_init_steps: Integer = Field(default=0, ge=0)
    """Steps to collect before the first update."""
    steps_per_update: Number = Field(default=1.0, gt=0)
    """Average number of agent steps per gradient step."""
    save_replay_buffer: Flag = False
    """Save the replay with each checkpoint and load it on resume."""
    reward_signal_steps_per_update: Number = Field(default=4.0, gt=0)
    """The same as steps_per_update, for the networks of reward signals."""

    @model_validator(mode="after")
    def _holds_a_batch(self) -> OffPolicyHyperparamSettings:
        if self.buffer_size < self.batch_size:
            raise self._refusal(
                "buffer_size",
                f"found {self.buffer_size}, which is less than one batch (batch_size {self.batch_size}): "
                "nothing would ever be learned. The replay should hold thousands of batches",
            )
        return self


class InterruptedValue(str, Enum):
    """Where the return of an interrupted episode bootstraps."""

    LAST_OBSERVATION = "last_observation"
    OWN_OBSERVATION = "own_observation"


def _as_policy(data: dict[str, Any]) -> float:
    return float(data.get("steps_per_update", 1.0))


class ReplaySettings(OffPolicyHyperparamSettings):
    """Hyperparameters of all of Lanista's off-policy trainers."""

    reward_signal_steps_per_update: Number = Field(default_factory=_as_policy, gt=0)
    """The same as steps_per_update, for the networks of reward signals. Not given: as steps_per_update."""
    random_initial_actions: Flag = own(False)
    """Before buffer_init_steps agents take uniformly random actions, as of no policy; a network that has
    learned nothing yet often repeats one action. Not in evaluations."""
    gradient_steps: Integer = own(1, ge=1)
    """Consecutive gradient steps, each on a batch of its own, when an update is due."""
    n_step: Integer = own(1, ge=1)
    """Steps whose rewards are summed before a value estimate stands for the rest."""
    prioritized_replay: Flag = own(False)
    """Sample steps by their TD errors instead of uniformly."""
    prioritized_alpha: Number = own(0.6, ge=0, le=1)
    """How strongly prioritized_replay depends on the error. 0: not at all."""
    prioritized_beta: Number = own(0.4, ge=0, le=1)
    """How much the bias of prioritized_replay is corrected at the start; in full at max_steps."""
    normalize_rewards: Flag = own(False)
    """Divide each signal's rewards by the running standard deviation of their discounted return; the signal's
    strength multiplies what is divided."""
    interrupted_value: InterruptedValue = own(InterruptedValue.LAST_OBSERVATION)
    """Whose value stands for the rewards after an interrupted episode: last_observation is the last one that
    the engine sent; own_observation is the one before it, as in ML-Agents."""
    frame_stack: Integer = own(1, ge=1)
    """Number of frames stacked in an image, along its first axis and the newest last, if the sensor's name
    (StackingSensor_size4_...) does not show it. The replay then keeps each frame once."""

    @property
    def random_steps(self) -> int:
        """See `HyperparamSettings.random_steps`."""
        return self.buffer_init_steps if self.random_initial_actions else 0

    @model_validator(mode="after")
    def _is_random_for_some_steps(self, info: ValidationInfo) -> ReplaySettings:
        if self.random_initial_actions and not self.buffer_init_steps:
            note(
                info,
                "random_initial_actions has no effect, because buffer_init_steps is 0: learning starts at "
                "once. Set buffer_init_steps to the number of steps that are to be random, such as 1000.",
            )
        return self
