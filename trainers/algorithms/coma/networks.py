"""The three networks of COMA and their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...networks.modules.exploration import ExploringDistribution, explore
from ...networks.modules.sequences import PackedSequences
from ...networks.multi_actor import MultiActor
from .critic import CentralCritic, Steps, Table


@dataclass(frozen=True)
class COMANetworks:
    """The actors, the critic, and the target critic."""

    actors: MultiActor
    critic: CentralCritic
    target: CentralCritic
    branches: tuple[int, ...]
    device: torch.device

    def policy(
        self,
        inputs: Sequence[Tensor],
        steps: Steps,
        action_mask: Tensor | None,
        exploration: Tensor | float,
        sequences: PackedSequences | None = None,
    ) -> ExploringDistribution:
        """The policy pi' of B steps.

        Args:
            inputs: of a table's rows, as `MultiActor.prepare` gives them.
            steps: which rows.
            action_mask: [B, sum of branch sizes].
            exploration: a scalar, or [B].
            sequences: of the steps, where actors have a memory.
        """
        own = [x.index_select(0, steps.own) for x in inputs]
        return explore(self.actors.act(own, steps.slots, action_mask, sequences), exploration)

    def tensor(self, column: NDArray[Any]) -> Tensor:
        """On the learner's device."""
        return torch.from_numpy(np.ascontiguousarray(column)).to(self.device)

    def discrete(self, actions: NDArray[np.int32]) -> Tensor:
        """[n, branches] int64."""
        return self.tensor(actions.astype(np.int64))

    def mask(self, action_mask: NDArray[np.bool_] | None) -> Tensor | None:
        """On the learner's device; None if nothing is forbidden."""
        return None if action_mask is None or not action_mask.any() else self.tensor(action_mask)

    def table_of(self, network: CentralCritic, obs: Sequence[Tensor], actions: Tensor) -> Table:
        """Rows as inputs of the critic or the target, both normalized by the critic's normalizers."""
        return network.table(*self.critic.prepare(obs), actions)


def flat(policy: ExploringDistribution) -> Tensor:
    """The probabilities of pi', branch by branch: [B, sum of branch sizes]."""
    return policy.branches.flat(policy.probabilities)
