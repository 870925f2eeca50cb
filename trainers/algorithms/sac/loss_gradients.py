"""What the losses of SAC read of policy and critics, and their gradients by hand, in NumPy or torch.

Arrays have the B rows of the batch last. See losses.py for the formulas.
"""

from __future__ import annotations

import math
from typing import Any

from ...networks.modules.distributions import EPSILON, LOG_SIGMA_RANGE, LOG_SQRT_2PI
from ..ppo.loss_gradients import Array


class SquashedGaussian:
    """tanh of Gaussian samples mu + sigma noise, and their log-probabilities; see `losses.sample_actions`."""

    def __init__(self, xp: Any, mu: Array, log_sigma: Array, noise: Array) -> None:
        """`log_sigma` as the network computes it, not clamped; all [A, B]. `xp`: the module of the arrays."""
        clamped = log_sigma.clip(*LOG_SIGMA_RANGE)
        self.within_range = clamped == log_sigma
        self.sigma = xp.exp(clamped)
        self.deviation = self.sigma * noise
        raw = mu + self.deviation
        self.actions = xp.tanh(raw)
        """[A, B]."""
        self.square = self.deviation * self.deviation
        self.spread = 2.0 * self.sigma * self.sigma + EPSILON
        size = abs(raw)
        slope = 2.0 * (math.log(2.0) - size - xp.log1p(xp.exp(-2.0 * size)))  # ln(1 - tanh^2)
        logs = self.square / self.spread + xp.log(self.sigma + EPSILON) + (slope + LOG_SQRT_2PI)
        self.log_prob = -logs.sum(0)
        """[B], of all components together."""

    def gradient(self, d_log_prob: Array, d_actions: Array) -> tuple[Array, Array]:
        """Gradients of mu and log sigma [A, B], from those of `log_prob`, one for all rows, and `actions`."""
        a, sigma = self.actions, self.sigma
        d_mu = (2.0 * d_log_prob) * a + d_actions * (1.0 - a * a)
        of_exponent = (2.0 * EPSILON) * self.square / (self.spread * self.spread)
        direct = of_exponent + sigma / (sigma + EPSILON)
        d_log_sigma = (d_mu * self.deviation - d_log_prob * direct) * self.within_range
        return d_mu, d_log_sigma


class Categoricals:
    """All discrete actions, branches side by side."""

    def __init__(self, xp: Any, p: Array, log_probs: Array, members: Array, mask: Array | None) -> None:
        """`p` [N, B]; `log_probs` = ln(p + 1e-7); `members`: of `BranchSums`; `mask` [N, B]: forbidden."""
        self.softmax = p
        self.log_probs = log_probs
        self.p = xp.exp(log_probs)
        """The probabilities that the losses use."""
        self.members = members
        self.mask = mask
        self.negative_entropy = members.T @ (self.p * log_probs)
        """[K, B] the sum of p ln p."""

    def gradient(self, d_p: Array) -> Array:
        """The gradient of the logits, from that of `p` [N, B], in which that of ln p is included."""
        weighted = self.softmax * d_p
        d_logits: Array = weighted - self.softmax * (self.members @ (self.members.T @ weighted))
        if self.mask is not None:
            d_logits[self.mask] = 0.0
        return d_logits


def expected_q(q: Array, weights: Array | None) -> Array:
    """[2, S, N, B] with weights [N, B] -> [2, S, B]; see `losses.expected_q`."""
    return q[:, :, 0] if weights is None else (q * weights).sum(2)


def squared_error(error: Array, weights: Array | None) -> tuple[Array, Array]:
    """0.5 the mean square of errors [..., S, B] over the last two axes, and its gradient."""
    signals, rows = error.shape[-2:]
    weighted = error if weights is None else error * weights
    factor = 1.0 / (rows * signals)
    return (weighted * error).sum((-2, -1)) * (0.5 * factor), weighted * factor
