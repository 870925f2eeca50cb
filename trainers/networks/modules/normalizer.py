"""Running normalization of vector observations."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor, nn

from ...utils import distributed

LIMIT = 5.0
"""The greatest absolute value of normalized observations, which are clamped to it."""


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


class Moments(Protocol):
    """Running statistics: a number of rows, their mean [size] and the sum of squared deviations [size]."""

    steps: Tensor
    mean: Tensor
    squares: Tensor


class SharedMoments:
    """Merges what the ranks of a run have counted in the same normalizers since the last merge.

    With n0, m0, S0 of the last merge, the rows that a rank has counted since have, about m0,

        k = n - n0,   sum(x - m0) = n (m - m0),   sum((x - m0)^2) = S + n (m - m0)^2 - S0

    and of these the sums over all ranks are added to n0, m0, S0.
    """

    def __init__(self, normalizers: Iterable[Moments]) -> None:
        self._normalizers = list({id(normalizer): normalizer for normalizer in normalizers}.values())
        self.rebase()

    @classmethod
    def of(cls, modules: Iterable[nn.Module], other: Moments | None = None) -> "SharedMoments":
        """The shared moments of all normalizers in some modules, and others."""
        found = [m for module in modules for m in module.modules() if isinstance(m, Normalizer)]
        return cls(found if other is None else [*found, other])

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the moments: whatever is loaded within this context, they are as before at its end."""
        states = [[moment.clone() for moment in _tensors(one)] for one in self._normalizers]
        yield
        for normalizer, state in zip(self._normalizers, states, strict=True):
            for moment, before in zip(_tensors(normalizer), state, strict=True):
                moment.copy_(before)

    def rebase(self) -> None:
        """Start from the moments that all ranks have now, as after loading a checkpoint."""
        several = distributed.world_size() > 1
        self._base = [self._moments(normalizer) for normalizer in self._normalizers] if several else []

    def merge(self) -> None:
        """Let every rank's normalizers count what all ranks have counted."""
        if distributed.world_size() == 1 or not self._normalizers:
            return
        counted = [
            torch.cat([(n - n0).reshape(1), n * (m - m0), s + n * (m - m0) ** 2 - s0])
            for (n, m, s), (n0, m0, s0) in zip(map(self._moments, self._normalizers), self._base, strict=True)
        ]
        total = torch.cat(counted)
        distributed.all_reduce_sum(total)
        for normalizer, (n0, m0, s0), added in zip(
            self._normalizers, self._base, torch.split(total, [len(one) for one in counted]), strict=True
        ):
            count, linear, squared = added[0], added[1 : 1 + len(m0)], added[1 + len(m0) :]
            shift = linear / (n0 + count).clamp(min=1)  # of none there is no mean
            normalizer.steps.copy_(n0 + count)
            normalizer.mean.copy_(m0 + shift)
            normalizer.squares.copy_(s0 + squared - (n0 + count) * shift**2)
        self.rebase()

    def _moments(self, normalizer: Moments) -> tuple[Tensor, Tensor, Tensor]:
        copies = (one.detach().to("cpu", torch.float64, copy=True) for one in _tensors(normalizer))
        steps, mean, squares = copies
        return steps, mean, squares


def _tensors(moments: Moments) -> tuple[Tensor, Tensor, Tensor]:
    return moments.steps, moments.mean, moments.squares
