"""What DQN learns from a batch: which values it compares, and the loss.

Notation: B steps, S reward signals, K branches, n the sum of their sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from ..networks.actor import Actor
from ..networks.greedy_heads import QHead
from ..replay.batch import ReplayBatch


class BranchColumns:
    """Where the actions of each branch stand among all."""

    def __init__(self, sizes: Sequence[int], device: torch.device) -> None:
        starts = [sum(sizes[:k]) for k in range(len(sizes))]
        self.starts = torch.tensor(starts, device=device)

    def taken(self, q: Tensor, actions: Tensor) -> Tensor:
        """[B, S, n] values and [B, K] actions, counted within each branch -> their values [B, S, K]."""
        columns = (actions + self.starts).unsqueeze(1)
        return q.gather(2, columns.expand(-1, q.shape[1], -1))


def head_of(network: Actor) -> QHead:
    """The head of a network of action values."""
    assert isinstance(network.actions, QHead)
    return network.actions


def encodings(network: Actor, inputs: Sequence[Tensor], states: Tensor | None, length: int) -> Tensor:
    """What stands before the head [B, encoding]; with a memory over sequences that begin in `states`."""
    encoded = network.actor_encoding(inputs)
    return encoded if states is None else network.memory(0)(encoded, states, length)[0]


def next_encodings(
    network: Actor, inputs: Sequence[Tensor], following: Sequence[Tensor], states: Tensor | None, length: int
) -> Tensor:
    """The same of what follows each step.

    With a memory a sequence is gone through from its first observation on to what follows its last one: what
    the memory says there has seen all that lies before. (So a step's return must be that of one step.)
    """
    if states is None:
        alone: Tensor = network.actor_encoding(following)
        return alone
    memory = network.memory(0)
    first = network.actor_encoding([rows[::length] for rows in inputs])
    behind = network.actor_encoding(following).view(-1, length, first.shape[1])
    through = torch.cat((first.unsqueeze(1), behind), 1).flatten(0, 1)
    said: Tensor = memory(through, states, length + 1)[0]
    return said.view(-1, length + 1, memory.output_size)[:, 1:].flatten(0, 1)


def targets(
    network: Actor,
    target: Actor,
    inputs: Sequence[Tensor],
    following: Sequence[Tensor],
    batch: ReplayBatch,
    columns: BranchColumns,
    length: int,
    *,
    double: bool,
) -> Tensor:
    """Y = r + discount * mean over branches of Q'(o', a*): [B, S].

    a* is, in each branch, the best available action by the sum over signals: as the network sees it, valued
    by the target network (van Hasselt et al. 2015, arXiv 1509.06461), or, without `double`, as the target
    network sees it. The mean over branches: Tavakoli et al. 2017, arXiv 1711.08946, equation 6.
    """
    valued = next_encodings(target, inputs, following, batch.states, length)
    chooser = network if double else target
    chosen = next_encodings(network, inputs, following, batch.states, length) if double else valued
    best = chooser.actions(chosen, batch.next_action_mask).deterministic().discrete
    values = columns.taken(head_of(target).q(valued), best).mean(2)
    return batch.rewards + batch.discounts * values


def loss(
    taken: Tensor, targets: Tensor, weights: Tensor | None, real: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Huber's loss, and the errors |y - Q| for priorities.

    Args:
        taken: Q of the actions that were taken, [B, S, K].
        targets: [B, S]; all branches have the same.
        weights: [B] of the steps, or None.
        real: [B] which steps count, or None for all.

    Returns:
        The weighted mean over steps of the means over signals and branches, and [B] the mean errors.
    """
    wanted = targets.unsqueeze(2).expand_as(taken)
    with torch.no_grad():
        errors = (wanted - taken).abs().mean((1, 2))
    if weights is None and real is None:
        return functional.smooth_l1_loss(taken, wanted), errors
    of_steps = functional.smooth_l1_loss(taken, wanted, reduction="none").mean((1, 2))
    if weights is not None:
        of_steps = of_steps * weights
    if real is None:
        return of_steps.mean(), errors
    return of_steps.masked_fill(~real, 0.0).sum() / real.sum().clamp(min=1), errors
