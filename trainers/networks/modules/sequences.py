"""Networks that differ from place to place, and runs of steps that a memory goes through."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class PackedSequences(NamedTuple):
    """Consecutive steps of one agent each; runs lie one behind another."""

    lengths: list[int]
    """Steps of each run, at least 1."""
    states: Tensor
    """[runs, size], what a memory held before each run's first step."""

    def starts(self) -> Tensor:
        """[runs] where each begins."""
        lengths = torch.tensor(self.lengths, device=self.states.device)
        return torch.cumsum(lengths, 0) - lengths


Network = Callable[[int, Tensor, "PackedSequences | None"], tuple[Tensor, "Tensor | None"]]
"""From a place, the numbers [n] of its rows and their runs, to results [n, ...] and the states behind."""


def by_slot(
    places: Tensor, count: int, network: Network, runs: PackedSequences | None = None
) -> tuple[Tensor, Tensor | None]:
    """What each row's own network makes of it.

    Args:
        places: [B] int64, below `count`. A run is where its first step is.
        count: how many places there are.
        network: asked for every place where somebody is.
        runs: the rows' runs, where the networks have memories.

    Returns:
        [B, ...] in the order of `places`, and the states behind the runs, in their order.
    """
    if runs is not None:
        of_runs = places[runs.starts()]
        lengths = torch.tensor(runs.lengths, device=places.device)
        places = of_runs.repeat_interleave(lengths)
    order = places.argsort(stable=True)
    counts = torch.bincount(places, minlength=count).tolist()
    rows, states, run_order = [], [], []
    for place, here in enumerate(torch.split(order, counts)):
        if not len(here):
            continue
        some = None
        if runs is not None:
            which = (of_runs == place).nonzero().squeeze(1)
            some = PackedSequences([runs.lengths[i] for i in which.tolist()], runs.states[which])
            run_order.append(which)
        of_place, behind = network(place, here, some)
        rows.append(of_place)
        if behind is not None:
            states.append(behind)
    together = torch.cat(rows).index_select(0, order.argsort())
    if not states:
        return together, None
    return together, torch.cat(states).index_select(0, torch.cat(run_order).argsort())
