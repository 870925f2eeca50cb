"""The formulas of SAC's action distributions with their gradients, for NumPy's and torch's arrays alike."""

from __future__ import annotations

import math
from typing import Any

from ..distributions import EPSILON, LOG_SIGMA_RANGE

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)

Array = Any
"""An array of NumPy's, or a tensor on any device; of the two kinds no function mixes both."""


class SquashedGaussian:
    """tanh of Gaussian samples mu + sigma noise, and their log-probabilities; see `sampling.sample`."""

    def __init__(self, xp: Any, mu: Array, log_sigma: Array, noise: Array) -> None:
        """`log_sigma` as the network gave it, not clamped; all [B, A]. `xp`: the module of the arrays."""
        self.xp = xp
        self.free = (log_sigma >= LOG_SIGMA_RANGE[0]) & (log_sigma <= LOG_SIGMA_RANGE[1])
        self.sigma = xp.exp(log_sigma.clip(*LOG_SIGMA_RANGE))
        self.deviation = self.sigma * noise
        raw = mu + self.deviation
        self.actions = xp.tanh(raw)
        """[B, A]."""
        self.square = self.deviation * self.deviation
        self.spread = 2.0 * self.sigma * self.sigma + EPSILON
        size = abs(raw)
        slope = 2.0 * (math.log(2.0) - size - xp.log1p(xp.exp(-2.0 * size)))  # ln(1 - tanh^2)
        logs = self.square / self.spread + xp.log(self.sigma + EPSILON) + (slope + _LOG_SQRT_2PI)
        self.log_prob = -logs.sum(1)
        """[B], of all components together."""

    def gradient(self, d_log_prob: Array, d_actions: Array) -> tuple[Array, Array]:
        """By mu and by log sigma [B, A], for gradients by `log_prob`, alike in all rows, and `actions`."""
        a, sigma = self.actions, self.sigma
        d_mu = (2.0 * d_log_prob) * a + d_actions * (1.0 - a * a)
        of_exponent = (2.0 * EPSILON) * self.square / (self.spread * self.spread)
        direct = of_exponent + sigma / (sigma + EPSILON)
        d_log_sigma = (d_mu * self.deviation - d_log_prob * direct) * self.free
        return d_mu, d_log_sigma


class Categoricals:
    """All discrete actions, branches side by side."""

    def __init__(self, xp: Any, p: Array, logs: Array, members: Array, forbidden: Array | None) -> None:
        """`p` [B, N] and `logs` = ln(p + 1e-7); `members` as of `BranchSums`; `forbidden` [B, N] bool."""
        self.softmax = p
        self.logs = logs
        self.p = xp.exp(logs)
        """exp of the log-probabilities, what the losses count with."""
        self.members = members
        self.forbidden = forbidden
        self.certainty = (self.p * logs) @ members
        """[B, K] the sum of p ln p."""

    def gradient(self, by_p: Array) -> Array:
        """By the logits, of a loss whose gradient by `p` [B, N] is given, that through ln p included."""
        weighted = self.softmax * by_p
        d_logits: Array = weighted - self.softmax * (weighted @ self.members @ self.members.T)
        if self.forbidden is not None:
            d_logits[self.forbidden] = 0.0
        return d_logits
