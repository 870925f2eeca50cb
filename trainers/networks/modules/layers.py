"""Dense layers, alone or of several networks at once, with their activations and initial weights.

Initial weights have the distributions of ML-Agents, so that its settings mean the same here.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...settings.models.networks import Activation, Initialization


class Dense(nn.Module):
    """y = x W + b with W [in, out] from a Gaussian of the given deviation, b = 0."""

    def __init__(
        self, in_features: int, out_features: int, deviation: float, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_features, out_features))
        self.bias = nn.Parameter(torch.zeros(out_features))
        with torch.no_grad():
            self.weight.normal_(0.0, deviation, generator=generator)

    def forward(self, inputs: Tensor) -> Tensor:
        """[B, in] -> [B, out]."""
        return torch.addmm(self.bias, inputs, self.weight)


class DenseStack(nn.Module):
    """y = x W + b, each of S networks with weights of its own."""

    def __init__(
        self,
        streams: int,
        in_features: int,
        out_features: int,
        generator: torch.Generator | None = None,
        gain: float = 1.0,
        initialization: Initialization = Initialization.KAIMING_NORMAL,
    ) -> None:
        """`gain`: of the initial weights, see `initialize_`."""
        super().__init__()
        self.weight = nn.Parameter(torch.empty(streams, in_features, out_features))
        self.bias = nn.Parameter(torch.zeros(streams, 1, out_features))
        initialize_(self.weight, initialization, gain, generator)

    def forward(self, inputs: Tensor) -> Tensor:
        """[S, B, in] -> [S, B, out], in one batched product."""
        return torch.baddbmm(self.bias, inputs, self.weight)

    def stream(self, index: int, inputs: Tensor) -> Tensor:
        """The layer of one network: [B, in] -> [B, out]."""
        if len(self.weight) == 1:  # views, so that no gradient is copied into one for all networks
            return torch.addmm(self.bias.squeeze(0), inputs, self.weight.squeeze(0))
        return torch.addmm(self.bias[index], inputs, self.weight[index])


ORTHOGONAL_GAIN = math.sqrt(2.0)
"""Of orthogonal hidden layers, as in Stable-Baselines3 and OpenAI's baselines: wide layers behind few inputs
would else hardly leave 0, where activations are straight lines."""
LEAK = 0.01
"""The slope of a leaky ReLU below 0."""
GELU_SCALE, GELU_CUBE = 1.5957691216057308, 0.044715
"""GELU as x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)) (Hendrycks and Gimpel 2016, arXiv 1606.08415): all
engines import a sigmoid, not all an error function."""


def activate(kind: Activation, inputs: Tensor) -> Tensor:
    """Any shape; Swish is x sigmoid(x)."""
    if kind is Activation.SWISH:
        return functional.silu(inputs)
    if kind is Activation.RELU:
        return torch.relu(inputs)
    if kind is Activation.LEAKY_RELU:
        return functional.leaky_relu(inputs, LEAK)
    if kind is Activation.ELU:
        return functional.elu(inputs)
    if kind is Activation.GELU:
        return functional.gelu(inputs, approximate="tanh")
    return torch.tanh(inputs)


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
    """Fill `weight` uniformly within 1 / sqrt(fan_in) of 0, as torch initializes convolutions."""
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
