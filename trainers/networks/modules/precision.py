"""The numbers in which the products of an update are computed."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from enum import Enum

import torch
from torch import Tensor


class Precision(str, Enum):
    """`torch_settings.precision`."""

    FLOAT32 = "float32"
    BF16 = "bf16"
    """Products of matrices in bfloat16: 8 bits of precision, the range of float32. Weights, sums of losses,
    probabilities and Adam stay in float32, and so do acting, the values of a rollout, and brains."""

    def passes(self, device: torch.device) -> AbstractContextManager[object]:
        """Where the passes through networks run that a gradient is taken of."""
        if self is Precision.FLOAT32:
            return nullcontext()
        return torch.autocast(device.type, torch.bfloat16)


def widened(tensor: Tensor) -> Tensor:
    """In float32 what was computed in bfloat16; anything else as it is."""
    return tensor.float() if tensor.dtype == torch.bfloat16 else tensor
