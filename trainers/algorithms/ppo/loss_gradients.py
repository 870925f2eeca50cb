"""The terms of PPO's objective with their gradients by what the heads give, in NumPy or torch."""

from __future__ import annotations

import math
from typing import Any

from ...networks.modules.distributions import EPSILON, LOG_SQRT_2PI
from .losses import VALUE_WEIGHT

_TWO_PI_E = 2.0 * math.pi * math.e

Array = Any
"""A NumPy array, or a tensor on any device; no function mixes the two."""


def surrogate(
    xp: Any, log_probs: Array, old_log_probs: Array, advantages: Array, epsilon: float | Array
) -> tuple[Array, Array, Array, Array]:
    """-L^CLIP, see `clipped_surrogate`; the statistics of `ratio_statistics`; the gradient by `log_probs`.

    `xp` is the module of the arrays [B, components], numpy or torch.
    """
    count = math.prod(log_probs.shape)
    scaled = advantages * (-1.0 / count)
    log_ratio = log_probs - old_log_probs
    ratio = xp.exp(log_ratio)
    unclipped = ratio * scaled
    clipped_ratio = ratio.clip(1.0 - epsilon, 1.0 + epsilon)
    clipped = clipped_ratio * scaled
    approx_kl = (ratio.sum() - log_ratio.sum()) / count - 1.0
    clip_fraction = (ratio != clipped_ratio).sum() / count
    # Where clipping bites, the bound does not depend on the ratio; elsewhere its slope is itself.
    gradient = xp.where(unclipped >= clipped, unclipped, 0.0)
    return xp.maximum(unclipped, clipped).sum(), approx_kl, clip_fraction, gradient


def squared_error(values: Array, returns: Array) -> tuple[Array, Array]:
    """The mean of (R - V)^2 over rows and signals [B, signals], and what `VALUE_WEIGHT` of it gives by V."""
    error = values - returns
    count = math.prod(error.shape)
    return (error * error).sum() / count, error * (2.0 * VALUE_WEIGHT / count)


class Gaussian:
    """The formulas of `gaussian_log_prob` and `gaussian_entropy` with their gradients."""

    def __init__(self, xp: Any, mu: Array, log_sigma: Array, actions: Array) -> None:
        sigma = xp.exp(log_sigma)
        self.variance = sigma * sigma
        padded = sigma + EPSILON
        spread = 2.0 * self.variance + EPSILON
        deviation = actions - mu
        self.slope = deviation * (1.0 / spread)
        self.exponent = deviation * self.slope
        self.of_variance = self.variance / spread
        self.of_sigma = sigma / padded
        self.log_probs = -LOG_SQRT_2PI - xp.log(padded) - self.exponent

    def gradient(self, d_log_probs: Array, d_entropy: float | Array, d_log_sigma: Array) -> Array:
        """By mu, for gradients by the log-probabilities and by the mean entropy; `d_log_sigma` is written."""
        widening = (self.exponent * d_log_probs).sum(0) * (4.0 * self.of_variance)
        scaled = self.variance * _TWO_PI_E
        of_entropy = scaled / (scaled + EPSILON) * (d_entropy / len(scaled))
        d_log_sigma[:] = widening - self.of_sigma * d_log_probs.sum(0) + of_entropy
        return self.slope * d_log_probs * 2.0


class Categorical:
    """With p = softmax(logits): ln(p + e) of the chosen actions, entropy = -sum of p ln(p + e).

    The arrays are [widest branch, B K], so that sums over the actions of a branch are sums of rows.
    """

    def __init__(self, xp: Any, logits: Array, actions: Array) -> None:
        """`logits` [widest, B K], -inf where a branch has no such action; `actions` [B, K]."""
        self.rows = len(actions)
        chosen = actions.reshape(-1)
        self.chosen = chosen * len(chosen) + (xp.ones_like(chosen).cumsum(0) - 1)
        p = xp.exp(logits - xp.amax(logits, 0))
        self.probabilities = p / p.sum(0)
        self.padded = self.probabilities + EPSILON
        self.logs = xp.log(self.padded)
        self.log_probs = self.logs.take(self.chosen).reshape(actions.shape)

    def gradient(self, d_log_probs: Array, d_entropy: float | Array) -> Array:
        """By the logits, for gradients by the log-probabilities [B, K] and by the mean entropy."""
        d_p = (self.logs + self.probabilities / self.padded) * (-d_entropy / self.rows)
        d_p.reshape(-1)[self.chosen] += d_log_probs.reshape(-1) / self.padded.take(self.chosen)
        d_p *= self.probabilities
        return d_p - self.probabilities * d_p.sum(0)
