"""How weights begin. The same distributions as ML-Agents', so that its settings mean the same here."""

import math

import torch
from torch import Tensor


@torch.no_grad()
def kaiming_normal_(
    weight: Tensor, fan_in: int, gain: float = 1.0, generator: torch.Generator | None = None
) -> Tensor:
    """Fill `weight` from a Gaussian of deviation gain / sqrt(fan_in) (He et al. 2015, with linear gain)."""
    return weight.normal_(0.0, gain / math.sqrt(fan_in), generator=generator)


@torch.no_grad()
def xavier_uniform_(
    weight: Tensor, fan_in: int, fan_out: int, generator: torch.Generator | None = None
) -> Tensor:
    """Fill `weight` uniformly within sqrt(6 / (fan_in + fan_out)) of 0 (Glorot and Bengio 2010)."""
    limit = math.sqrt(6.0 / (fan_in + fan_out))
    return weight.uniform_(-limit, limit, generator=generator)
