"""The losses of SAC (Haarnoja et al. 2018, arXiv 1812.05905) with a separate V, weighted as ML-Agents does.

Discrete actions are not sampled: the expectation over a branch's actions is summed (Christodoulou 2019, arXiv
1910.07207). The probability p of an action is exp(ln(p + 1e-7)) throughout. docs/algorithms/sac.md lists
the intentional differences from ML-Agents.

Notation: B rows, S reward signals, A continuous components, K branches with N actions in all (N = 1 without
any).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ...networks.critics import Coefficients
from ...networks.modules.distributions import ActionDistribution, gaussian_log_prob
from ..ppo.losses import masked_mean


class BranchSums:
    """K branches side by side: [..., N] to [..., K] and back, each in one product."""

    def __init__(self, sizes: Sequence[int], device: torch.device | None = None) -> None:
        self.sizes = tuple(int(size) for size in sizes)
        self.count = len(self.sizes)
        of_branch = torch.arange(self.count).repeat_interleave(torch.tensor(self.sizes, dtype=torch.int64))
        members = of_branch[:, None] == torch.arange(self.count)
        self.members = members.float().to(device)
        """[N, K], 1 where the action belongs to the branch."""
        self.starts = torch.tensor([sum(self.sizes[:k]) for k in range(self.count)], device=device)

    def sums(self, x: Tensor) -> Tensor:
        """[..., N] -> [..., K], the sum over the actions of each branch."""
        return x @ self.members

    def repeat(self, x: Tensor) -> Tensor:
        """[..., K] -> [..., N], a branch's value for each of its actions."""
        return x @ self.members.t()

    def taken_weights(self, actions: Tensor) -> Tensor:
        """[B, K] actions that were taken -> [B, N]: 1 / K for these, 0 for the others."""
        weights = torch.zeros(len(actions), len(self.members), device=actions.device)
        return weights.scatter_(1, actions + self.starts, 1.0 / self.count)


class LogProbs(NamedTuple):
    """Log-probabilities of a policy's actions at B rows; None for a kind of actions that does not exist."""

    continuous: Tensor | None
    """[B, A] of the sampled actions."""
    discrete: Tensor | None
    """[B, N] ln(p + 1e-7) of all actions, branches side by side."""


class SampledActions(NamedTuple):
    """Actions of the current policy at B rows."""

    continuous: Tensor
    """[B, A] tanh of the Gaussian samples; [B, 0] without any."""
    log_probs: LogProbs


def sample_actions(distribution: ActionDistribution, noise: Tensor) -> SampledActions:
    """Sample with standard Gaussian `noise` [B, A], differentiably (Kingma and Welling, arXiv 1312.6114).

    The log-probabilities are computed before the squashing, and so are exact however close to -1 or 1 the
    squashed actions come.
    """
    d = distribution
    actions, continuous, discrete = d.mu, None, None
    if d.mu.shape[1]:
        raw = torch.addcmul(d.mu, d.log_sigma.exp(), noise)
        slope = 2.0 * (math.log(2.0) - raw - torch.nn.functional.softplus(-2.0 * raw))
        actions, continuous = raw.tanh(), gaussian_log_prob(d.mu, d.log_sigma, raw) - slope
    if d.branches.sizes:
        discrete = d.branches.flat(d.log_probabilities)
    return SampledActions(actions, LogProbs(continuous, discrete))


def expected_q(q: Tensor, weights: Tensor | None) -> Tensor:
    """Action values [..., B, S, N] weighted by the actions [B, N] taken, or the policy's: [..., B, S].

    `weights` None: there are no discrete actions, and N = 1.
    """
    return q.squeeze(-1) if weights is None else (q * weights.unsqueeze(-2)).sum(-1)


def q_targets(rewards: Tensor, discounts: Tensor, next_values: Tensor) -> Tensor:
    """Y = r + gamma V'(o'), all [B, S]; the discount is 0 after the true end of an episode."""
    return rewards + discounts * next_values


def value_targets(q: Tensor, penalty: Tensor) -> Tensor:
    """The smaller of Q1 and Q2 less `entropy_penalty`: [2, B, S] and [B] -> [B, S]."""
    return q.amin(0) - penalty.unsqueeze(-1)


def entropy_penalty(alpha: Coefficients, log_probs: LogProbs, branches: BranchSums) -> Tensor:
    """Alpha ln pi: [B], with the expectation over each branch, and the mean over branches."""
    penalty = torch.zeros((), device=alpha.continuous.device)
    if log_probs.continuous is not None:
        penalty = penalty + alpha.continuous * log_probs.continuous.sum(1)
    if log_probs.discrete is not None:
        penalty = penalty + (_negative_entropy(log_probs.discrete, branches) * alpha.discrete).mean(1)
    return penalty


def _negative_entropy(log_probs: Tensor, branches: BranchSums) -> Tensor:
    """[B, K] the sum of p ln p over the actions of each branch."""
    return branches.sums(log_probs.exp() * log_probs)


def squared_error(
    values: Tensor, targets: Tensor, weights: Tensor | None = None, real: Tensor | None = None
) -> Tensor:
    """0.5 (y - x)^2, the mean over rows that are `real` and over signals.

    Args:
        values, targets: [B, S].
        weights: [B], importance weights.
        real: [B], rows that count.
    """
    square = (targets - values) ** 2
    if weights is not None:
        square = square * weights.unsqueeze(-1)
    return 0.5 * masked_mean(square, real)


def policy_loss(
    alpha: Coefficients, log_probs: LogProbs, q: Tensor, branches: BranchSums, real: Tensor | None = None
) -> Tensor:
    """E [alpha ln pi - Q1]. With both kinds of actions that of Q1 counts for each, as in ML-Agents.

    Args:
        alpha, log_probs, branches: as for `entropy_penalty`.
        q: [B, S, N] Q1 at the sampled continuous actions.
        real: [B], rows that count.
    """
    mean_q = q.mean(1)
    expected = mean_q[:, 0]
    loss = torch.zeros_like(expected)
    if log_probs.discrete is not None:
        p = log_probs.discrete.exp()
        expected = (p * mean_q).sum(1)
        loss = loss + (p * log_probs.discrete * branches.repeat(alpha.discrete)).sum(1) - expected
    if log_probs.continuous is not None:
        loss = loss + alpha.continuous * log_probs.continuous.sum(1) - expected
    return masked_mean(loss, real)


def temperature_loss(
    log_alpha: Coefficients,
    target_entropies: Coefficients,
    log_probs: LogProbs,
    branches: BranchSums,
    real: Tensor | None = None,
) -> Tensor:
    """-E [ln alpha (ln pi + target entropy)], which raises alpha while the entropy is below its target.

    Args:
        log_alpha: what is adjusted.
        target_entropies: of both kinds of actions.
        log_probs, branches, real: as for `policy_loss`; no gradient flows through them.
    """
    loss = torch.zeros((), device=log_alpha.continuous.device)
    if log_probs.discrete is not None:
        gap = _negative_entropy(log_probs.discrete.detach(), branches) + target_entropies.discrete
        loss = loss - masked_mean((log_alpha.discrete * gap).mean(1), real)
    if log_probs.continuous is not None:
        gap = log_probs.continuous.detach().sum(1) + target_entropies.continuous
        loss = loss - masked_mean(log_alpha.continuous * gap, real)
    return loss


def polyak_update(target: Tensor, source: Tensor, tau: float) -> None:
    """Target := tau source + (1 - tau) target, in place, of parameters of one shape."""
    target.lerp_(source, tau)
