"""Passes over many rows without gradients, some at a time where the rows hold pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

CHUNK_BYTES = 4 << 20
"""Bytes of pictures. As numbers they are four times that within a pass; what convolutions make comes on top.
"""
MIN_CHUNK = 16


def chunk_size(inputs: Sequence[Tensor]) -> int | None:
    """How many rows should go through a network together; None: all, for there are no pictures."""
    of_row = sum(rows[0].nbytes for rows in inputs if rows.dim() == 4 and len(rows))
    return max(MIN_CHUNK, CHUNK_BYTES // of_row) if of_row else None


def chunked_forward(network: Callable[[Sequence[Tensor]], Tensor], inputs: Sequence[Tensor]) -> Tensor:
    """What a network makes of its inputs, row by row: [rows, ...]."""
    at_once = chunk_size(inputs)
    if at_once is None or len(inputs[0]) <= at_once:
        return network(inputs)
    parts = zip(*(torch.split(rows, at_once) for rows in inputs), strict=True)
    return torch.cat([network(part) for part in parts])


def encode(network: Callable[[Sequence[Tensor]], Tensor], inputs: Sequence[Tensor]) -> Tensor:
    """What a network makes of its inputs: in portions unless a gradient is to be taken of it."""
    return network(inputs) if torch.is_grad_enabled() else chunked_forward(network, inputs)
