"""A checkpoint's network, acting as a brain does."""

from __future__ import annotations

import numpy as np
from mlagents_envs.base_env import ActionTuple, DecisionSteps
from numpy.typing import NDArray

from ..greedy_policy import policy_of
from ..networks.actor import ActingNetwork
from .memories import AgentMemories


class CheckpointPolicy:
    """See `Playable`."""

    has_deterministic = True

    def __init__(self, network: ActingNetwork, seed: int | None) -> None:
        """`seed`: of drawn actions; None for another one each time."""
        drawn = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        spec = network.spec
        self._policy = policy_of(network.requires_grad_(False), spec, drawn)
        self._memories = AgentMemories(network.memory_size)
        self.continuous_size = int(spec.action_spec.continuous_size)
        self.branches = tuple(int(size) for size in spec.action_spec.discrete_branches)
        self.memory_size = network.memory_size
        self.observations: dict[int, tuple[int | None, ...]] = {
            index: tuple(observation.shape) for index, observation in enumerate(spec.observation_specs)
        }

    def act(self, steps: DecisionSteps, deterministic: bool = False) -> ActionTuple:
        """Decide for the n agents of `steps`; with a memory, each agent's is read and replaced."""
        ids = np.asarray(steps.agent_id)
        self._policy.deterministic = deterministic
        (decision,) = self._policy.act([steps], self._memories.read(ids) if self.memory_size else None)
        if decision.memory is not None:
            self._memories.store(ids, decision.memory)
        return decision.env_action

    def forget(self, agent_ids: NDArray[np.int32]) -> None:
        """Drop the memories of agents whose episode has ended."""
        self._memories.forget(agent_ids)
