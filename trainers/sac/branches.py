"""Sums over the actions of each discrete branch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class BranchSums:
    """K branches side by side: [..., sum of sizes] to [..., K] and back, each in one product."""

    def __init__(self, sizes: Sequence[int], device: torch.device | None = None) -> None:
        self.sizes = tuple(int(size) for size in sizes)
        self.count = len(self.sizes)
        of_branch = torch.arange(self.count).repeat_interleave(torch.tensor(self.sizes, dtype=torch.int64))
        members = of_branch[:, None] == torch.arange(self.count)
        self.members = members.float().to(device)
        """[sum of sizes, K], 1 where the action is of the branch."""
        self.starts = torch.tensor([sum(self.sizes[:k]) for k in range(self.count)], device=device)

    def sums(self, x: Tensor) -> Tensor:
        """Over the actions of each branch."""
        return x @ self.members

    def spread(self, x: Tensor) -> Tensor:
        """A branch's number for each of its actions."""
        return x @ self.members.t()

    def shares(self, chosen: Tensor) -> Tensor:
        """Chosen actions [B, K] -> [B, sum of sizes]: 1 / K where an action is a chosen one, else 0."""
        shares = torch.zeros(len(chosen), len(self.members), device=chosen.device)
        return shares.scatter_(1, chosen + self.starts, 1.0 / self.count)
