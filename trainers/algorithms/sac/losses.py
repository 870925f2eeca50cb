"""The losses of SAC (Haarnoja et al. 2018, arXiv 1812.05905) with a separate V, as ML-Agents weighs them.

Discrete actions have no samples: what is expected over a branch's actions is summed (Christodoulou 2019,
arXiv 1910.07207). p of an action is exp(ln(p + 1e-7)) throughout. Where this departs from ML-Agents on
purpose is in docs/algorithms.md, "SAC".

B rows, S reward signals, A continuous components, K branches with N actions in all (N = 1 without any).

Sums over the actions of each discrete branch.

Actions of today's policy, through which gradients flow (Kingma and Welling 2014, arXiv 1312.6114).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ...networks.modules.distributions import ActionDistribution, gaussian_log_prob
from ...networks.sac import Coefficients
from ..ppo.losses import masked_mean


class BranchSums:
    """K branches side by side: [..., sum of sizes] to [..., K] and back, each in one product."""

    def __init__(self, sizes: Sequence[int], device: torch.device | None = None) -> None:
        self.sizes = tuple(int(size) for size in sizes)
        self.count = len(self.sizes)
        of_branch = torch.arange(self.count).repeat_interleave(torch.tensor(self.sizes, dtype=torch.int64))
        members = of_branch[:, None] == torch.arange(self.count)
        self.members = members.float().to(device)
        """[sum of sizes, K], 1 where the action is of the branch."""
        self.starts = torch.tensor([sum(self.sizes[:k]) for k in range(self.count)], device=device)

    def sums(self, x: Tensor) -> Tensor:
        """Over the actions of each branch."""
        return x @ self.members

    def spread(self, x: Tensor) -> Tensor:
        """A branch's number for each of its actions."""
        return x @ self.members.t()

    def shares(self, chosen: Tensor) -> Tensor:
        """Chosen actions [B, K] -> [B, sum of sizes]: 1 / K where an action is a chosen one, else 0."""
        shares = torch.zeros(len(chosen), len(self.members), device=chosen.device)
        return shares.scatter_(1, chosen + self.starts, 1.0 / self.count)


def weighted(q: Tensor, weights: Tensor | None) -> Tensor:
    """Action values [..., B, S, N] by `weights` [B, N]: of taken actions, or of the policy's. [..., B, S].

    `weights` None: there are no discrete actions, and one value.
    """
    return q.squeeze(-1) if weights is None else (q * weights.unsqueeze(-2)).sum(-1)


def q_targets(rewards: Tensor, discounts: Tensor, next_values: Tensor) -> Tensor:
    """Y = r + gamma V'(o'), all [B, S]; a discount is 0 behind a true end."""
    return rewards + discounts * next_values


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


class LogProbs(NamedTuple):
    """What a policy says of its actions at B rows; None for a kind of actions that there is none of."""

    continuous: Tensor | None
    """[B, A] of the sampled actions."""
    discrete: Tensor | None
    """[B, N] ln(p + 1e-7) of all actions, branches side by side."""


def entropy_penalty(alpha: Coefficients, log_probs: LogProbs, branches: BranchSums) -> Tensor:
    """[B] what is taken off a state's value for the policy's certainty there."""
    penalty = torch.zeros((), device=alpha.continuous.device)
    if log_probs.continuous is not None:
        penalty = penalty + alpha.continuous * log_probs.continuous.sum(1)
    if log_probs.discrete is not None:
        penalty = penalty + (_certainty(log_probs.discrete, branches) * alpha.discrete).mean(1)
    return penalty


def _certainty(log_probs: Tensor, branches: BranchSums) -> Tensor:
    """[B, K] the sum of p ln p over the actions of each branch."""
    return branches.sums(log_probs.exp() * log_probs)


def value_targets(q: Tensor, penalty: Tensor) -> Tensor:
    """min(Q1, Q2) less the penalty: [2, B, S] and [B] -> [B, S]."""
    return q.amin(0) - penalty.unsqueeze(-1)


def policy_loss(
    alpha: Coefficients, log_probs: LogProbs, q: Tensor, branches: BranchSums, real: Tensor | None = None
) -> Tensor:
    """What the policy is to make small: its certainty, less what Q1 expects of its actions.

    With continuous and discrete actions what is expected counts for both, as in ML-Agents.

    Args:
        alpha, log_probs, branches: as of `entropy_penalty`.
        q: [B, S, N] of Q1, at the sampled continuous actions.
        real: [B], rows that count.
    """
    mean_q = q.mean(1)
    expected = mean_q[:, 0]
    loss = torch.zeros_like(expected)
    if log_probs.discrete is not None:
        p = log_probs.discrete.exp()
        expected = (p * mean_q).sum(1)
        loss = loss + (p * log_probs.discrete * branches.spread(alpha.discrete)).sum(1) - expected
    if log_probs.continuous is not None:
        loss = loss + alpha.continuous * log_probs.continuous.sum(1) - expected
    return masked_mean(loss, real)


def temperature_loss(
    log_alpha: Coefficients,
    entropies: Coefficients,
    log_probs: LogProbs,
    branches: BranchSums,
    real: Tensor | None = None,
) -> Tensor:
    """Raises each log alpha while the entropy is below its target: - ln(alpha) (ln pi + target).

    Args:
        log_alpha: what is adjusted.
        entropies: the targets.
        log_probs, branches, real: as of `policy_loss`; no gradient goes through them.
    """
    loss = torch.zeros((), device=log_alpha.continuous.device)
    if log_probs.discrete is not None:
        missing = _certainty(log_probs.discrete.detach(), branches) + entropies.discrete
        loss = loss - masked_mean((log_alpha.discrete * missing).mean(1), real)
    if log_probs.continuous is not None:
        missing = log_probs.continuous.detach().sum(1) + entropies.continuous
        loss = loss - masked_mean(log_alpha.continuous * missing, real)
    return loss


def follow(target: Tensor, source: Tensor, tau: float) -> None:
    """Target := tau source + (1 - tau) target, in place, of weights of any one shape."""
    target.lerp_(source, tau)


class Sampled(NamedTuple):
    """What the policy does and says at B rows."""

    continuous: Tensor
    """[B, A] tanh of the Gaussians' samples; [B, 0] without any."""
    log_probs: LogProbs


def sample(distribution: ActionDistribution, noise: Tensor) -> Sampled:
    """Draw by standard Gaussian `noise` [B, A]; the log-probabilities are taken before the squashing.

    So they are exact however near the squashed actions come to -1 and 1.
    """
    d = distribution
    actions, continuous, discrete = d.mu, None, None
    if d.mu.shape[1]:
        raw = torch.addcmul(d.mu, d.log_sigma.exp(), noise)
        slope = 2.0 * (math.log(2.0) - raw - torch.nn.functional.softplus(-2.0 * raw))
        actions, continuous = raw.tanh(), gaussian_log_prob(d.mu, d.log_sigma, raw) - slope
    if d.branches.sizes:
        discrete = d.branches.flat(d.log_probabilities)
    return Sampled(actions, LogProbs(continuous, discrete))
