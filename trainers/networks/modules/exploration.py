"""A policy that sometimes acts uniformly at random."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from .distributions import ActionDistribution


@dataclass(eq=False)
class ExploringDistribution(ActionDistribution):
    """pi' = (1 - e) softmax + e / n over the n available actions of each branch (Foerster et al. 2018).

    Samples, log-probabilities and entropy are those of pi'. Continuous actions are as they were.
    """

    exploration: Tensor | float = 0.0
    """e, 0 to 1: one number, or [B]."""

    @cached_property
    def probabilities(self) -> Tensor:
        """[B, K, widest branch] of pi'; 0 where an action is forbidden or lacking."""
        chance = self.exploration
        if isinstance(chance, Tensor):
            chance = chance.reshape(-1, 1, 1)
        available = self.logits.new_ones(self.logits.shape)
        if self.action_mask is not None:
            available = available.masked_fill(self.action_mask, 0.0)
        available = self.branches.rectangular(available).clamp(min=0.0)
        evenly = available / available.sum(-1, keepdim=True).clamp(min=1.0)
        chosen = super().probabilities
        return chosen + chance * (evenly - chosen)


def explore(distribution: ActionDistribution, exploration: Tensor | float) -> ExploringDistribution:
    """The same policy, exploring by so much (a number, or one per row)."""
    d = distribution
    return ExploringDistribution(
        d.mu, d.log_sigma, d.logits, d.branches, d.action_mask, d.squashed, exploration
    )


@dataclass(frozen=True)
class ExplorationSchedule:
    """A straight line from `start` to `end`, reached after `decay_steps`, and level from there on."""

    start: float
    end: float
    decay_steps: int

    def __call__(self, step: int) -> float:
        """How much to explore at this step of the trainer."""
        progress = min(step, self.decay_steps) / self.decay_steps if self.decay_steps > 0 else 1.0
        return self.start * (1.0 - progress) + self.end * progress
