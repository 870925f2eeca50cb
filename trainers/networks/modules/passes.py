"""How forward passes run: in which precision, and in chunks for images that need no gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum

import torch
from torch import Tensor

CHUNK_BYTES = 4 << 20
"""Bytes of images in a chunk. As float32 they take four times that, and the results of convolutions more."""
MIN_CHUNK = 16


class Precision(str, Enum):
    """`torch_settings.precision`."""

    FLOAT32 = "float32"
    BF16 = "bf16"
    """Products of matrices in bfloat16: 8 bits of precision, the range of float32. Weights, sums of losses,
    probabilities and Adam stay in float32, and so do acting, the values of a rollout, and brains."""

    def passes(self, device: torch.device) -> AbstractContextManager[object]:
        """The context of passes through networks whose gradient is taken."""
        if self is Precision.FLOAT32:
            return nullcontext()
        return torch.autocast(device.type, torch.bfloat16)


def widened(tensor: Tensor) -> Tensor:
    """A bfloat16 tensor as float32; any other one unchanged."""
    return tensor.float() if tensor.dtype == torch.bfloat16 else tensor


def chunk_size(inputs: Sequence[Tensor]) -> int | None:
    """The rows that should go through a network together; None: all, since there are no images."""
    row_bytes = sum(rows[0].nbytes for rows in inputs if rows.dim() == 4 and len(rows))
    return max(MIN_CHUNK, CHUNK_BYTES // row_bytes) if row_bytes else None


def chunked_forward(network: Callable[[Sequence[Tensor]], Tensor], inputs: Sequence[Tensor]) -> Tensor:
    """A network's outputs for all rows [rows, ...], computed in chunks."""
    at_once = chunk_size(inputs)
    if at_once is None or len(inputs[0]) <= at_once:
        return network(inputs)
    parts = zip(*(torch.split(rows, at_once) for rows in inputs), strict=True)
    return torch.cat([network(part) for part in parts])


def encode(network: Callable[[Sequence[Tensor]], Tensor], inputs: Sequence[Tensor]) -> Tensor:
    """A network's outputs: in chunks, unless gradients are needed."""
    return network(inputs) if torch.is_grad_enabled() else chunked_forward(network, inputs)
