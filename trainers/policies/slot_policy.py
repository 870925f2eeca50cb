"""Acting where what an agent does depends on its place."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from mlagents_envs.base_env import BehaviorSpec
from torch import Tensor

from ..networks.modules.sequences import PackedSequences
from ..networks.multi_actor import MultiActor
from .policy import Policy


class SlotPolicy(Policy):
    """A `Policy` of `MultiActor` that differ. `places` is to be set before agents act."""

    def __init__(
        self, network: MultiActor, spec: BehaviorSpec, seed: int, *, deterministic: bool = False
    ) -> None:
        super().__init__(network.member(0), spec, seed, deterministic=deterministic)
        self.actors = network
        self.places = torch.zeros(0, dtype=torch.int64)
        """[n] of the agents that act next, batch by batch."""

    def _columns(self, obs: Sequence[Tensor], memory: Tensor | None) -> tuple[Tensor, Tensor | None]:
        runs = None if memory is None else PackedSequences([1] * len(memory), memory)
        return self.actors.logits(self.actors.prepare(obs), self.places, runs)
