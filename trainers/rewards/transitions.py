"""The steps that reward signals with networks of their own look at and learn from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...agent_processor.sequences import next_steps
from ...agent_processor.trajectory import Rollout
from ...envs.base import ObsArray
from ..buffers.replay.sampler import ReplayBatch
from ..networks.modules.distributions import Actions


@dataclass(frozen=True, slots=True)
class Transitions:
    """B steps on the learner's device, in any order."""

    obs: list[Tensor]
    """Per sensor [B, *shape]: float32, or uint8 for pictures that came as bytes."""
    behind: list[Tensor]
    """Per sensor [M, *shape], observations that followed some of the steps."""
    following: Tensor | None
    """[B] where in [obs, behind] each step's next observation is; None: `behind` is [B] in the same order."""
    actions: Actions
    """As the policy drew them."""
    done: Tensor
    """[B] float32, 1 where the step ended its episode."""

    def __len__(self) -> int:
        return len(self.done)

    @classmethod
    def of_rollout(cls, rollout: Rollout, device: torch.device) -> Transitions:
        """The trajectories' own steps."""
        return SignalSteps.of(rollout).on(device)

    @classmethod
    def of_replay(cls, batch: ReplayBatch, *, ahead: bool, with_padding: bool) -> Transitions:
        """What was drawn from a replay. `ahead`: with what followed the steps."""
        ended = batch.ended if batch.ended is not None else torch.zeros(len(batch), dtype=torch.bool)
        behind = batch.next_obs if ahead else []
        whole = cls(batch.obs, behind, None, batch.actions, ended.float().to(batch.rewards.device))
        return whole if with_padding or batch.real is None else whole.rows(batch.real.nonzero().squeeze(1))

    def rows(self, which: Tensor) -> Transitions:
        """Some of the steps, by their numbers [n]."""
        obs = [column.index_select(0, which) for column in self.obs]
        actions = Actions(*(column.index_select(0, which) for column in self.actions))
        return Transitions(obs, self._behind(which), None, actions, self.done.index_select(0, which))

    def _behind(self, which: Tensor) -> list[Tensor]:
        """Per sensor [n, *shape] what followed these steps."""
        if self.following is None:
            return [column.index_select(0, which) for column in self.behind]
        ahead, steps = self.following.index_select(0, which), len(self)
        goes_on = ahead < steps
        found = []
        for own, ends in zip(self.obs, self.behind):  # without a copy of all of them side by side
            rows = own.index_select(0, torch.where(goes_on, ahead, 0))
            rows[~goes_on] = ends.index_select(0, ahead[~goes_on] - steps)
            found.append(rows)
        return found


@dataclass(slots=True)
class SignalSteps:
    """Columns of N steps of J trajectories, which wait for the next update."""

    obs: list[ObsArray]
    """Per sensor [N, *shape], one trajectory after another."""
    next_obs: list[ObsArray]
    """Per sensor [J, *shape], behind each trajectory's last step."""
    lengths: NDArray[np.int64]
    """[J]; their sum is N."""
    continuous: NDArray[np.float32]
    discrete: NDArray[np.int32]
    done: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.done)

    @classmethod
    def of(cls, rollout: Rollout) -> SignalSteps:
        """The trajectories' own steps."""
        own = slice(rollout.steps)
        return cls(
            obs=[column[own] for column in rollout.obs],
            next_obs=rollout.next_obs,
            lengths=rollout.lengths,
            continuous=rollout.continuous[own],
            discrete=rollout.discrete[own],
            done=rollout.done[own],
        )

    def restored(self) -> SignalSteps:
        """Nothing in them belongs to one process."""
        return self

    def on(self, device: torch.device, *, ahead: bool = True) -> Transitions:
        """The same as tensors. `ahead`: with what followed the steps."""

        def tensor(column: ObsArray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(column)).to(device)

        return Transitions(
            obs=[tensor(column) for column in self.obs],
            behind=[tensor(column) for column in self.next_obs] if ahead else [],
            following=torch.from_numpy(next_steps(self.lengths)).to(device) if ahead else None,
            actions=Actions(tensor(self.continuous), tensor(self.discrete.astype(np.int64))),
            done=tensor(self.done.astype(np.float32)),
        )


def minibatches(steps: Transitions, size: int, shuffler: torch.Generator) -> Iterator[Transitions]:
    """One epoch: a fresh order, cut into whole minibatches; what is left over sits this epoch out."""
    order = torch.randperm(len(steps), generator=shuffler, device="cpu").to(steps.done.device)
    for which in torch.split(order, size)[: len(steps) // size]:
        yield steps.rows(which)
