"""Policies that are no distribution: in one state agents always do the same, the best that is known."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from .distributions import BLOCKED_LOGIT, ActionDistribution, Actions


@dataclass(eq=False)
class GreedyDistribution(ActionDistribution):
    """All of the probability lies on one action.

    `logits` are the values of the discrete actions, of which the greatest that is not forbidden is taken (the
    first of several); `mu` are the continuous actions before tanh. Samples are the deterministic actions.
    """

    @cached_property
    def values(self) -> Tensor:
        """[B, K, widest branch]: of each action; -1e8 where it is forbidden, -inf where it is lacking."""
        values = self.logits
        if self.action_mask is not None:
            values = values.masked_fill(self.action_mask, BLOCKED_LOGIT)
        return self.branches.rectangular(values)

    @cached_property
    def probabilities(self) -> Tensor:
        """[B, K, widest branch]: 1 for the action that is taken, 0 for all others."""
        best = self.values.argmax(-1, keepdim=True)
        return torch.zeros_like(self.values).scatter_(-1, best, 1.0)

    def sample(self, generator: torch.Generator | None = None) -> Actions:
        """The deterministic actions; nothing is drawn."""
        return self.deterministic()

    def deterministic(self) -> Actions:
        """tanh(mu), and the best action of each branch."""
        continuous = self.squash(self.mu)
        if not self.branches.sizes:
            return Actions(continuous, self._sample_discrete(None))
        return Actions(continuous, self.values.argmax(-1))

    def log_probs(self, actions: Actions) -> Tensor:
        """[B, A + K] of zeros: there is nothing else that could have been done."""
        return self.mu.new_zeros((self.mu.shape[0], self.mu.shape[1] + len(self.branches.sizes)))

    def entropy(self) -> Tensor:
        """[B] of zeros."""
        return self.mu.new_zeros(self.mu.shape[0])

    def shortfall(self, chosen: Tensor) -> Tensor:
        """[B, K]: by how much the values of these actions [B, K] lie below the greatest, in parts of it."""
        greatest = self.values.max(-1).values
        behind = greatest - self.values.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
        return behind / greatest.abs().clamp(min=1.0)
