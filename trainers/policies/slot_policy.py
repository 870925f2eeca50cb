"""Acting where the action depends on an agent's slot in its group."""

from __future__ import annotations

from collections.abc import Sequence

from mlagents_envs.base_env import BehaviorSpec
from torch import Tensor

from ..networks.modules.sequences import PackedSequences
from ..networks.multi_actor import MultiActor
from .policy import ActContext, Policy


class SlotPolicy(Policy):
    """A `Policy` of `MultiActor` that differ; reads `ActContext.slots`."""

    def __init__(
        self, network: MultiActor, spec: BehaviorSpec, seed: int, *, deterministic: bool = False
    ) -> None:
        super().__init__(network.member(0), spec, seed, deterministic=deterministic)
        self.actors = network

    def _forward(
        self, obs: Sequence[Tensor], memory: Tensor | None, context: ActContext
    ) -> tuple[Tensor, Tensor | None]:
        assert context.slots is not None, "a SlotPolicy needs the agents' slots"
        runs = None if memory is None else PackedSequences([1] * len(memory), memory)
        return self.actors.logits(self.actors.prepare(obs), context.slots, runs)
