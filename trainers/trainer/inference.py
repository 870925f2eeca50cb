"""By which network a behaviour's agents act, and what is kept of them between their decisions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from mlagents_envs.base_env import BehaviorSpec, DecisionSteps
from torch import Tensor

from ...agent_processor.queues import AgentManagerQueue
from ...envs.base import BehaviorId, Decision, EnvironmentStep
from ..algorithms.base import Algorithm
from ..policies.agent_states import ActingMemories, Asking
from ..policies.greedy import GreedyPolicy
from ..policies.policy import Policy
from ..policies.slot_policy import SlotPolicy
from .factory import make_policy

Places = Callable[[Sequence[DecisionSteps], Sequence[Asking]], Tensor]
"""[n] the places of the agents of all batches, where agents act by them."""


class InferencePolicy:
    """Acts by the network that is learnt, or, `apart`, by a copy of it to which weights are published."""

    def __init__(
        self,
        name: str,
        spec: BehaviorSpec,
        algorithm: Algorithm,
        seed: int,
        *,
        apart: bool,
        deterministic: bool,
        places: Places,
    ) -> None:
        """Begin with the network as it is.

        Args:
            name, spec, algorithm: the behaviour's.
            seed: of sampled actions.
            apart: by a copy on the CPU, since another thread or device learns.
            deterministic: the likeliest actions.
            places: tells them.
        """
        self.apart = apart
        self._algorithm = algorithm
        self._places = places
        self._published: AgentManagerQueue[dict[str, Tensor]] = AgentManagerQueue(name)
        network = algorithm.network
        self.network = copy.deepcopy(network).cpu().requires_grad_(False) if apart else network
        make = partial(make_policy, spec=spec, deterministic=deterministic, explorer=algorithm.explorer)
        self.policy: Policy = make(self.network, seed=seed)
        self.opponent: Callable[[Any], Policy] = partial(make, seed=0)
        """Makes what acts by another network, and as the policy does otherwise."""
        self.memories = ActingMemories(network.memory_size) if network.memory_size else None

    @property
    def acts_by_place(self) -> bool:
        """What agents say has to be collected before they act: that is when they get their places."""
        return isinstance(self.policy, SlotPolicy)

    def publish(self, numbers: Mapping[str, Tensor]) -> None:
        """Hand numbers of the network to the copy that acts; from any thread."""
        if numbers:
            self._published.put({k: v.detach().to("cpu", copy=True) for k, v in numbers.items()})

    def catch_up(self) -> None:
        """Act by what has been published, or by the network as it is now, from here on."""
        newest: dict[str, Tensor] = {}
        for published in self._published.drain():
            newest.update(published)
        if newest:
            self.network.load_state_dict(newest, strict=False)

    def load(self) -> None:
        """Take over the network's numbers at once."""
        if self.apart:
            self.network.load_state_dict(self._algorithm.network.state_dict())

    def act(
        self, policy: Policy, batches: Sequence[DecisionSteps], asking: Sequence[Asking], step: int
    ) -> list[Decision]:
        """Let a policy, this side's or an opponent's, decide at the trainer's `step`; see `Policy.act`."""
        policy.exploration = self._algorithm.exploration
        if isinstance(policy, SlotPolicy):
            policy.places = self._places(batches, asking)
        elif isinstance(policy, GreedyPolicy):
            policy.step, policy.asking = step, asking
        if self.memories is None:
            return policy.act(batches)
        decided = policy.act(batches, self.memories.read(asking, batches))
        self.memories.store(asking, decided)
        return decided

    def end_episodes(self, step: EnvironmentStep, behavior_id: BehaviorId) -> None:
        """What is kept of agents ends with their episodes: to be called before they are answered."""
        if self.memories is not None:
            self.memories.end(step, behavior_id)
        if isinstance(self.policy, GreedyPolicy) and self.policy.explorer is not None:
            self.policy.explorer.end(step, behavior_id)


def apart(threaded: bool, device: torch.device) -> bool:
    """Whether acting needs a copy of the network."""
    return threaded or device.type != "cpu"
