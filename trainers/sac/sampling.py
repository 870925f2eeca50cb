"""Actions of today's policy, through which gradients flow (Kingma and Welling 2014, arXiv 1312.6114)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ..distributions import ActionDistribution, gaussian_log_prob
from .losses import LogProbs


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
