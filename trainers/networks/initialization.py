"""How weights begin. The same distributions as ML-Agents', so that its settings mean the same here."""

import math

import torch
from torch import Tensor, nn

from .settings import Initialization


@torch.no_grad()
def kaiming_normal_(
    weight: Tensor, fan_in: int, gain: float = 1.0, generator: torch.Generator | None = None
) -> Tensor:
    """Fill `weight` from a Gaussian of deviation gain / sqrt(fan_in) (He et al. 2015, with linear gain)."""
    return weight.normal_(0.0, gain / math.sqrt(fan_in), generator=generator)


@torch.no_grad()
def xavier_uniform_(
    weight: Tensor, fan_in: int, fan_out: int, generator: torch.Generator | None = None, gain: float = 1.0
) -> Tensor:
    """Fill `weight` uniformly within gain sqrt(6 / (fan_in + fan_out)) of 0 (Glorot and Bengio 2010)."""
    limit = gain * math.sqrt(6.0 / (fan_in + fan_out))
    return weight.uniform_(-limit, limit, generator=generator)


@torch.no_grad()
def uniform_by_inputs_(weight: Tensor, fan_in: int, generator: torch.Generator | None = None) -> Tensor:
    """Fill `weight` uniformly within 1 / sqrt(fan_in) of 0, as torch begins its convolutions."""
    limit = 1.0 / math.sqrt(fan_in)
    return weight.uniform_(-limit, limit, generator=generator)


@torch.no_grad()
def initialize_(
    weight: Tensor, kind: Initialization, gain: float = 1.0, generator: torch.Generator | None = None
) -> Tensor:
    """Fill the weights [S, in, out] of a hidden layer of S networks.

    Orthogonal: Saxe et al. 2013, arXiv 1312.6120.
    """
    streams, fan_in, fan_out = weight.shape
    if kind is Initialization.XAVIER_UNIFORM:
        return xavier_uniform_(weight, fan_in, fan_out, generator, gain)
    if kind is Initialization.ORTHOGONAL:
        for stream in range(streams):
            nn.init.orthogonal_(weight[stream], gain, generator)
        return weight
    return kaiming_normal_(weight, fan_in, gain, generator)
