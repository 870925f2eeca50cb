"""A layer whose weights another network makes from the agent's goal (Ha et al. 2016, arXiv 1609.09106).

    y = x W(goal) + b,   W(goal) = LN(Swish(Swish(goal W1 + b1) W2 + b2)) W3 + b3,   LN without parameters

Goals are often few: a kind of thing to fetch, a room to go to. Then their matrices are made once for a batch,
not once for each row, which is nearly all of the work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..fast.onednn import small_matmul
from .attention import LAYER_NORM_EPS
from .layers import DenseStack

FEW_GOALS = 16
"""Up to so many different goals in a batch are distinguished."""


class Goals(NamedTuple):
    """What B rows strive for."""

    distinct: Tensor
    """[U, goal size]."""
    of_row: Tensor | None
    """[B] int64, into `distinct`; None: it has a goal for each row."""


class HyperLayer(nn.Module):
    """The layer of S networks, each with a hypernetwork of its own."""

    def __init__(
        self,
        streams: int,
        in_features: int,
        out_features: int,
        goal_columns: Sequence[slice],
        layer_size: int,
        generator: torch.Generator | None = None,
        *,
        goals_encoded: bool = True,
    ) -> None:
        """Build the hypernetworks with fresh weights.

        Args:
            streams: S.
            in_features: of what the layer reads.
            out_features: of what comes out.
            goal_columns: where in the encodings the goals are.
            layer_size: the hypernetworks' width.
            generator: of the first weights; torch's own when None.
            goals_encoded: whether goals come from encoders, which learn too. Otherwise all networks read
                the same ones, no gradient reaches beyond them, and those of a batch may be distinguished.
        """
        super().__init__()
        self.goals_encoded = goals_encoded
        self.in_features, self.out_features = in_features, out_features
        self.goal_columns = tuple(goal_columns)
        goal_size = sum(columns.stop - columns.start for columns in self.goal_columns)
        self.first = DenseStack(streams, goal_size, layer_size, generator)
        self.second = DenseStack(streams, layer_size, layer_size, generator)
        self.weights = DenseStack(streams, layer_size, in_features * out_features, generator)
        self.bias = nn.Parameter(torch.zeros(streams, 1, out_features))
        limit = math.sqrt(1.0 / (layer_size * in_features))
        with torch.no_grad():
            self.weights.weight.uniform_(-limit, limit, generator=generator)

    def goals(self, encodings: Tensor) -> Goals:
        """The goals in B rows of encodings [B, size]."""
        parts = [encodings[:, columns] for columns in self.goal_columns]
        rows = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
        if not self.goals_encoded:
            rows = rows.detach()
        # Of a goal that was itself encoded, each row's encoding must have its own gradient. A GPU that learns
        # would have to be waited for, and a gradient step that waits cannot be captured.
        learns = rows.device.type != "cpu" and not torch.is_inference_mode_enabled()
        apart = rows.requires_grad or learns
        distinguished = None if apart else _distinct(rows)
        return Goals(rows, None) if distinguished is None else distinguished

    def forward(self, inputs: Tensor, encodings: Tensor) -> Tensor:
        """The layers of all networks: [S, B, in], and [S, B, size] with the goals -> [S, B, out]."""
        goals = [self.goals(of_stream) for of_stream in encodings]
        if self.goals_encoded:
            return torch.stack([self.stream(s, inputs[s], its) for s, its in enumerate(goals)])
        # In one pass: what is derived from single networks' weights is added up in matrices for all of them.
        distinct, of_row = goals[0]
        hidden = functional.silu(self.first(distinct.expand(len(inputs), -1, -1)))
        hidden = functional.silu(self.second(hidden))
        made = self.weights(functional.layer_norm(hidden, hidden.shape[2:], eps=LAYER_NORM_EPS))
        weights = made.view(len(inputs), -1, self.in_features, self.out_features)
        if of_row is None:
            return small_matmul(inputs.unsqueeze(2), weights).squeeze(2) + self.bias
        every = torch.matmul(inputs.unsqueeze(1), weights)
        return every[:, of_row, torch.arange(inputs.shape[1], device=inputs.device)] + self.bias

    def generate(self, stream: int, goals: Tensor) -> Tensor:
        """[U, goal size] -> W [U, in, out]."""
        hidden = functional.silu(self.first.stream(stream, goals))
        hidden = functional.silu(self.second.stream(stream, hidden))
        hidden = functional.layer_norm(hidden, hidden.shape[1:], eps=LAYER_NORM_EPS)
        return self.weights.stream(stream, hidden).view(-1, self.in_features, self.out_features)

    def stream(self, index: int, inputs: Tensor, goals: Goals) -> Tensor:
        """The layer of one network: [B, in] -> [B, out]."""
        weights = self.generate(index, goals.distinct)
        if goals.of_row is None:
            return small_matmul(inputs.unsqueeze(1), weights).squeeze(1) + self.bias[index]
        every = torch.matmul(inputs, weights)  # [U, B, out]: a few products too many, in one call
        rows = torch.arange(len(inputs), device=inputs.device)
        return every[goals.of_row, rows] + self.bias[index]


def _distinct(rows: Tensor) -> Goals | None:
    """The different rows among [B, size]; None where they are too many to be worth it."""
    if len(rows) < 2:
        return None
    code = rows @ torch.arange(1, rows.shape[1] + 1, device=rows.device, dtype=rows.dtype).sqrt()
    codes, of_row = torch.unique(code, return_inverse=True)
    if len(codes) > min(FEW_GOALS, len(rows) - 1):
        return None
    first = torch.zeros(len(codes), dtype=torch.int64, device=rows.device)
    first[of_row] = torch.arange(len(rows), device=rows.device)
    distinct = rows[first]
    # Different rows may have one code, as rarely as that is.
    return Goals(distinct, of_row) if bool((distinct[of_row] == rows).all()) else None
