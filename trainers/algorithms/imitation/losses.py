"""The distance of a policy from an expert's actions.

B steps, A continuous actions, K branches of discrete ones.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...networks.modules.distributions import ActionDistribution, Actions, GreedyDistribution

MARGIN = 0.8
"""How much the expert's action should exceed the others in value (Hester et al. 2018, arXiv 1704.03732)."""


def cloning_loss(
    errors: Tensor, of_choices: Tensor, real: Tensor | None = None, weights: Tensor | None = None
) -> Tensor:
    """The mean squared error of continuous actions, and the mean loss of discrete ones.

    Args:
        errors: [B, A].
        of_choices: [B, K], as of `choice_losses`.
        real: [B] bool, False for padding; None: all count.
        weights: [B] of the steps; None: all count the same.
    """
    if real is not None:
        errors, of_choices = errors[real], of_choices[real]
    squares = errors.square()
    if weights is not None:
        squares, of_choices = squares * weights[:, None], of_choices * weights[:, None]
    loss = squares.mean() if errors.shape[1] else errors.new_zeros(())
    return loss + of_choices.mean() if of_choices.shape[1] else loss


def sampled_errors(policy: ActionDistribution, expert: Tensor, random: torch.Generator) -> Tensor:
    """[B, A] sampled actions less the expert's, which is ML-Agents' comparison.

    PPO's samples are divided by 3 for the engine, but the expert's actions [B, A] are in the engine's units:
    so the learned actions are about three times too small.
    """
    return policy.sample(random).continuous - expert


def engine_errors(policy: ActionDistribution, expert: Tensor) -> Tensor:
    """[B, A] the policy's mean in the engine's units, less the expert's actions.

    The engine clips actions to -1 and 1. Where the expert was at a limit, the policy may be beyond it;
    elsewhere the error is that of the mean before it is clipped, so that it has a slope there too.
    """
    wanted = expert.clamp(-1.0, 1.0)
    if policy.squashed:
        return policy.squash(policy.mu) - wanted
    sent = policy.mu / policy.action_range
    sent = torch.where(wanted >= 1.0, sent.clamp(max=1.0), sent)
    sent = torch.where(wanted <= -1.0, sent.clamp(min=-1.0), sent)
    return sent - wanted


def choice_losses(policy: ActionDistribution, expert: Tensor) -> Tensor:
    """[B, K] the losses of the expert's discrete actions [B, K].

    For probabilities the cross-entropy; for values, how far the expert's action is from exceeding all others
    by `MARGIN` (Hester et al. 2018, equation 4).
    """
    if not policy.branches.sizes:
        return policy.mu.new_zeros((len(expert), 0))
    if isinstance(policy, GreedyDistribution):
        chosen = expert.long().unsqueeze(-1)
        others = torch.full_like(policy.values, MARGIN).scatter_(-1, chosen, 0.0)
        return (policy.values + others).max(-1).values - policy.values.gather(-1, chosen).squeeze(-1)
    return cross_entropies(policy.log_probabilities, expert)


def cross_entropies(log_probabilities: Tensor, expert: Tensor) -> Tensor:
    """[B, K] the cross-entropies, from the logarithms of all probabilities [B, K, widest branch]."""
    chosen = expert.long().unsqueeze(-1)
    return -log_probabilities.log_softmax(-1).gather(-1, chosen).squeeze(-1)


def policy_loss(
    policy: ActionDistribution,
    expert: Actions,
    real: Tensor | None,
    random: torch.Generator,
    *,
    as_engine: bool,
    weights: Tensor | None = None,
) -> Tensor:
    """The loss of B steps; `as_engine`: continuous actions are compared in the engine's units.

    `weights` [B]: of the steps; None: all count the same.
    """
    if as_engine:
        errors = engine_errors(policy, expert.continuous)
    else:
        errors = sampled_errors(policy, expert.continuous, random)
    return cloning_loss(errors, choice_losses(policy, expert.discrete), real, weights)
