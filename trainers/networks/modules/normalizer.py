"""Running normalization of vector observations."""

import torch
from torch import Tensor, nn

LIMIT = 5.0
"""Normalized observations are clamped to this range on both sides."""


class Normalizer(nn.Module):
    """Shifts and scales each component of a vector by its running mean and deviation.

    The state is n (`steps`, int64, starts at 1), the mean m (`mean`, [size], starts at 0) and the sum of
    squared deviations S (`squares`, [size], starts at 1, so that at first the deviation is 1). k new rows x:

        n' = n + k,   m' = m + sum(x - m) / n',   S' = S + sum((x - m') (x - m))

    which is the exact combination of two samples (Welford; Chan et al. 1983), so rows may arrive in any order
    and in batches of any size with the same result.
    """

    steps: Tensor
    mean: Tensor
    squares: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("steps", torch.ones((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("squares", torch.ones(size))

    @torch.no_grad()
    def update(self, rows: Tensor, times: int = 1) -> bool:
        """Count `rows` [k, size] float32, as if each had been seen `times` times.

        Returns:
            False, with nothing counted, where the rows are so large that their squares overflow.
        """
        steps = self.steps + times * len(rows)
        deviation = rows - self.mean
        mean = self.mean + deviation.sum(0) * times / steps
        squares = self.squares + (deviation * (rows - mean)).sum(0) * times
        if not torch.isfinite(squares).all():
            return False
        # Written at the end and in place: a thread that acts meanwhile sees an old or a new number, never a
        # half-computed one, and views of the buffers stay valid.
        self.steps.copy_(steps)
        self.mean.copy_(mean)
        self.squares.copy_(squares)
        return True

    def deviation(self) -> Tensor:
        """The running standard deviation, sqrt(S / n): [size]."""
        return (self.squares / self.steps).sqrt_()

    def forward(self, rows: Tensor) -> Tensor:
        """`rows` [..., size], normalized and clamped to [-5, 5]."""
        return ((rows - self.mean) / self.deviation()).clamp_(-LIMIT, LIMIT)
