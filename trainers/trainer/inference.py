"""Inference for one behavior: the policy and its per-agent states between decisions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec, DecisionSteps
from torch import Tensor

from ...agent_processor.processor import AgentManager
from ...agent_processor.queues import AgentManagerQueue
from ...envs.base import BehaviorId, EnvironmentStep
from ..algorithms.base import Algorithm
from ..policies.agent_states import AgentStates, BatchSource
from ..policies.joint import ActRequest
from ..policies.policy import ActContext, Policy, SlotPolicy
from .factory import explorer_of, make_policy


class InferencePolicy:
    """Acts with the network that is trained, or with a `separate` copy to which weights are published.

    The copy's weights are its own; otherwise those that it acts with are the algorithm's.
    """

    def __init__(
        self,
        name: str,
        spec: BehaviorSpec,
        algorithm: Algorithm,
        seed: int,
        managers: Mapping[BehaviorId, AgentManager],
        *,
        separate: bool,
        deterministic: bool,
        random_steps: int = 0,
    ) -> None:
        """Start with the network's current weights.

        Args:
            name: the behavior's.
            spec: the behavior's.
            algorithm: the behavior's.
            seed: of sampled actions.
            managers: of the behavior's teams; they know the agents' group slots.
            separate: act with a copy on the CPU, because another thread or device learns.
            deterministic: take the likeliest actions.
            random_steps: the trainer step until which agents act uniformly at random.
        """
        self.separate = separate
        self._algorithm = algorithm
        self._managers = managers
        self._random_steps = random_steps
        self._published: AgentManagerQueue[dict[str, Tensor]] = AgentManagerQueue(name)
        network = algorithm.network
        self.network = copy.deepcopy(network).cpu().requires_grad_(False) if separate else network
        self._explorer = explorer_of(algorithm)
        make = partial(make_policy, spec=spec, deterministic=deterministic, explorer=self._explorer)
        self.policy: Policy = make(self.network, seed=seed)
        self.make_opponent: Callable[[Any], Policy] = partial(make, seed=0)
        """Makes the policy of another network, which otherwise acts in the same way."""
        self.states = AgentStates(network.memory_size) if network.memory_size else None
        self.remembers_agents = self.states is not None or self._explorer is not None
        """`end_episodes` is to be called."""
        self.acts_by_slot = isinstance(self.policy, SlotPolicy)
        """Steps have to be collected before agents act: that is when agents get their group slots."""

    def publish(self, tensors: Mapping[str, Tensor]) -> None:
        """Hand weights or statistics of the trained network to the copy that acts; from any thread."""
        if tensors:
            self._published.put({k: v.detach().to("cpu", copy=True) for k, v in tensors.items()})

    def load_published(self) -> None:
        """Act with what has been published so far from now on."""
        newest: dict[str, Tensor] = {}
        for published in self._published.drain():
            newest.update(published)
        if newest:
            self.network.load_state_dict(newest, strict=False)

    def load(self) -> None:
        """Copy the trained network's weights at once."""
        if self.separate:
            self.network.load_state_dict(self._algorithm.network.state_dict())

    def request(
        self, policy: Policy, batches: Sequence[DecisionSteps], sources: Sequence[BatchSource], step: int
    ) -> ActRequest:
        """What this policy, or an opponent's, is asked for at the trainer's `step`."""
        slots = self._slots(batches, sources) if isinstance(policy, SlotPolicy) else None
        uniform = step < self._random_steps
        context = ActContext(sources, self.states, slots, step, self._algorithm.exploration, uniform)
        return ActRequest(policy, batches, context)

    def _slots(self, batches: Sequence[DecisionSteps], sources: Sequence[BatchSource]) -> Tensor:
        """[n] the group slots of the agents of all batches, for policies that act by slot."""
        slots = [
            self._managers[behavior_id].places(env, np.asarray(batch.agent_id))
            for (env, behavior_id), batch in zip(sources, batches, strict=True)
        ]
        return torch.from_numpy(np.concatenate(slots))

    def end_episodes(self, step: EnvironmentStep, behavior_id: BehaviorId) -> None:
        """Reset the states of agents whose episodes end with `step`; to be called before `act`."""
        if self.states is not None:
            self.states.end_episodes(step, behavior_id)
        if self._explorer is not None:
            self._explorer.end_episodes(step, behavior_id)
