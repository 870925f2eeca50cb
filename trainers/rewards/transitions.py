"""The steps that reward signals with networks of their own evaluate and learn from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...agent_processor.rollout import next_steps
from ...agent_processor.trajectory import Rollout
from ...envs.base import ObsArray
from ..buffers.columns import BufferColumns
from ..buffers.replay.sampler import ReplayBatch
from ..networks.modules.distributions import Actions


@dataclass(frozen=True, slots=True)
class Transitions:
    """B steps on the learner's device, in any order."""

    obs: list[Tensor]
    """The observations per sensor [B, *shape]: float32, or uint8 for images that came as bytes."""
    next_obs: list[Tensor]
    """Per sensor [M, *shape], observations after some of the steps."""
    next_index: Tensor | None
    """[B] the position of each step's next observation in [obs, next_obs]; None: `next_obs` has B rows."""
    actions: Actions
    """The actions as the policy sampled them."""
    done: Tensor
    """[B] float32 flags, 1 where the step ended its episode."""
    terminated: Tensor | None = None
    """[B] flags of bool, True where the episode ended by itself and was not interrupted; None: not needed."""

    def __len__(self) -> int:
        return len(self.done)

    @classmethod
    def of_rollout(cls, rollout: Rollout, device: torch.device) -> Transitions:
        """The trajectories' own steps."""
        return SignalSteps.of(rollout).on(device)

    @classmethod
    def of_replay(cls, batch: ReplayBatch, *, with_next: bool, with_padding: bool) -> Transitions:
        """A batch of a replay. `with_next`: with the observations after the steps."""
        ended = batch.ended if batch.ended is not None else torch.zeros(len(batch), dtype=torch.bool)
        next_obs = batch.next_obs if with_next else []
        ended = ended.to(batch.rewards.device)
        whole = cls(batch.obs, next_obs, None, batch.actions, ended.float(), ended)
        return whole if with_padding or batch.real is None else whole.rows(batch.real.nonzero().squeeze(1))

    def rows(self, rows: Tensor) -> Transitions:
        """Some of the steps, by their positions [n]."""
        obs = [column.index_select(0, rows) for column in self.obs]
        actions = Actions(*(column.index_select(0, rows) for column in self.actions))
        ended = None if self.terminated is None else self.terminated.index_select(0, rows)
        return Transitions(obs, self._next_obs(rows), None, actions, self.done.index_select(0, rows), ended)

    def _next_obs(self, rows: Tensor) -> list[Tensor]:
        """Per sensor [n, *shape] the observations after these steps."""
        if self.next_index is None:
            return [column.index_select(0, rows) for column in self.next_obs]
        index, steps = self.next_index.index_select(0, rows), len(self)
        continues = index < steps
        found = []
        for own, final in zip(self.obs, self.next_obs):  # without a joined copy of both
            following = own.index_select(0, torch.where(continues, index, 0))
            following[~continues] = final.index_select(0, index[~continues] - steps)
            found.append(following)
        return found


@dataclass(slots=True)
class SignalSteps(BufferColumns):
    """Columns of N steps of J trajectories, collected for the next update."""

    obs: list[ObsArray]
    """The observations per sensor [N, *shape], one trajectory after another."""
    next_obs: list[ObsArray]
    """The observations per sensor [J, *shape] after each trajectory's last step."""
    lengths: NDArray[np.int64]
    """[J] the lengths of the trajectories; their sum is N."""
    continuous: NDArray[np.float32]
    discrete: NDArray[np.int32]
    done: NDArray[np.bool_]
    terminated: NDArray[np.bool_] | None = None
    """[N], see `Transitions`."""

    def __len__(self) -> int:
        return len(self.done)

    @classmethod
    def of(cls, rollout: Rollout, *, with_ends: bool = False) -> SignalSteps:
        """The trajectories' own steps. `with_ends`: with the column `terminated`."""
        own = rollout.own("obs", "continuous", "discrete", "done")
        ends = rollout.at_ends(rollout.terminated) if with_ends else None
        return cls(**own, next_obs=rollout.next_obs, lengths=rollout.lengths, terminated=ends)

    def on(self, device: torch.device, *, with_next: bool = True) -> Transitions:
        """The steps as tensors. `with_next`: with the observations after the steps."""

        def tensor(column: NDArray[Any]) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(column)).to(device)

        return Transitions(
            obs=[tensor(column) for column in self.obs],
            next_obs=[tensor(column) for column in self.next_obs] if with_next else [],
            next_index=torch.from_numpy(next_steps(self.lengths)).to(device) if with_next else None,
            actions=Actions(tensor(self.continuous), tensor(self.discrete.astype(np.int64))),
            done=tensor(self.done.astype(np.float32)),
            terminated=None if self.terminated is None else tensor(self.terminated),
        )


def minibatches(steps: Transitions, size: int, shuffler: torch.Generator) -> Iterator[Transitions]:
    """One epoch of shuffled minibatches; an incomplete last one is dropped, unless it is the only one.

    The real steps of padded sequences may be fewer than a minibatch of rows.
    """
    size = max(1, min(size, len(steps)))
    order = torch.randperm(len(steps), generator=shuffler, device="cpu").to(steps.done.device)
    for rows in torch.split(order, size)[: len(steps) // size]:
        yield steps.rows(rows)
