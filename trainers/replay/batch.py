"""What a replay gives for one gradient step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from ..distributions import Actions
from ..parallel.sharing import Part


@dataclass(frozen=True, slots=True)
class ReplayBatch:
    """B steps drawn from a replay, on the learner's device. With a memory: whole sequences one after another.

    A step's return is that of n steps (`n_step`), fewer before an end: rewards are their discounted sum, and
    `next_obs` is where a value stands for the rest. The tensors are good until the next batch is drawn.
    """

    obs: list[Tensor]
    """Per sensor [B, *shape]: float32, or uint8 for pictures that came as bytes."""
    next_obs: list[Tensor]
    """The same where the return bootstraps."""
    actions: Actions
    """As stored: continuous [B, A] float32, discrete [B, branches] int64."""
    action_mask: Tensor | None
    """[B, sum of branch sizes], True where the action was forbidden; None where none ever was."""
    next_action_mask: Tensor | None
    """The same at `next_obs`."""
    rewards: Tensor
    """[B, signals], strengths included: the discounted sum of the steps until `next_obs`."""
    discounts: Tensor
    """[B, signals]: what the value of `next_obs` is multiplied by: gamma to the power of the number of steps,
    0 behind a true end (but for signals that ignore ends)."""
    weights: Tensor | None
    """[B] importance weights of prioritised drawing, the largest 1; None: all are 1."""
    real: Tensor | None
    """[B] bool, False where a sequence is padding; None without a memory."""
    states: Tensor | None
    """[sequences, memory_size]: the actor's state before each sequence; None without a memory."""
    ended: Tensor | None = None
    """[B] bool, True where nothing is earned behind the step; None where nobody asks (`Sampler`)."""
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    """[B, ...] the columns that the algorithm declared (`ExtraColumn`), by name."""
    part: Part | None = None
    """Of a batch that several learners share, the one that these steps are."""

    def __len__(self) -> int:
        return len(self.rewards)
