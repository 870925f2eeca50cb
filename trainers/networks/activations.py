"""What follows a hidden layer."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from .settings import Activation

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
