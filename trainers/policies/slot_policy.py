"""Acting where what an agent does depends on its place."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from mlagents_envs.base_env import BehaviorSpec
from torch import Tensor

from ..networks.modules.sequences import Runs
from ..networks.multi_actor import Actors
from .policy import Policy


class PlacePolicy(Policy):
    """A `Policy` of `Actors` that differ. `places` is to be set before agents act."""

    def __init__(
        self, network: Actors, spec: BehaviorSpec, seed: int, *, deterministic: bool = False
    ) -> None:
        super().__init__(network.member(0), spec, seed, deterministic=deterministic)
        self.actors = network
        self.places = torch.zeros(0, dtype=torch.int64)
        """[n] of the agents that act next, batch by batch."""

    def _columns(self, obs: Sequence[Tensor], memory: Tensor | None) -> tuple[Tensor, Tensor | None]:
        runs = None if memory is None else Runs([1] * len(memory), memory)
        return self.actors.logits(self.actors.prepare(obs), self.places, runs)
