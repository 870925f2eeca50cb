"""Acts by a greedy network: the best that is known, and something else now and then while agents learn.

A checkpoint's network, acting as a brain does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from mlagents_envs.base_env import ActionTuple, BehaviorSpec, DecisionSteps
from numpy.typing import NDArray
from torch import Tensor

from ...envs.base import Decision
from ..networks.actor import ActingNetwork
from .agent_states import AgentMemories, Asking
from .exploration import ActionNoise, EpsilonGreedy, Explorer
from .policy import Policy

Floats = NDArray[np.float32]


class GreedyPolicy(Policy):
    """A `Policy` of an `Actor` with a greedy head. `step` and `asking` are to be set before agents explore.

    The actions of its decisions, which trainers learn from, are those that engines get.
    """

    def __init__(
        self,
        network: ActingNetwork,
        spec: BehaviorSpec,
        seed: int,
        *,
        deterministic: bool = False,
        explorer: Explorer | None = None,
    ) -> None:
        """`explorer`: how agents explore unless `deterministic`; None: they do not."""
        super().__init__(network, spec, seed, deterministic=deterministic)
        self.explorer = explorer
        self.step = 0
        """Of the trainer."""
        self.asking: Sequence[Asking] = ()
        """Whose agents each batch holds that acts next."""
        self._noise: Floats | None = None
        """[n, A] on the actions of the agents who act."""

    def act(self, batches: Sequence[DecisionSteps], memory: Floats | None = None) -> list[Decision]:
        """See `Policy.act`."""
        self._noise = None
        if isinstance(self.explorer, ActionNoise) and not self.deterministic:
            self._noise = self.explorer(self.asking, batches, self.step, self.generator)
        return super().act(batches, memory)

    def _decide_continuous(self, agents: NDArray[np.int32], columns: Tensor) -> Decision:
        actions: Floats = torch.tanh(columns).numpy()
        if self._noise is not None:
            actions = np.minimum(np.maximum(actions + self._noise, -1.0), 1.0)
        return _decision(agents, ActionTuple(actions, np.zeros((len(agents), 0), np.int32)))

    def _decide(self, agents: NDArray[np.int32], columns: Tensor, forbidden: Tensor | None) -> Decision:
        distribution = self.network.actions.distribution(columns, forbidden)
        chosen = distribution.deterministic().discrete.numpy()
        if isinstance(self.explorer, EpsilonGreedy) and not self.deterministic:
            mask = None if forbidden is None else forbidden.numpy()
            chosen = self.explorer(chosen, mask, self.step, self.generator)
        none = np.zeros((len(agents), 0), np.float32)
        return _decision(agents, ActionTuple(none, chosen.astype(np.int32)))


def policy_of(
    network: ActingNetwork,
    spec: BehaviorSpec,
    seed: int,
    *,
    deterministic: bool = False,
    explorer: Explorer | None = None,
) -> Policy:
    """What acts by a network: a `GreedyPolicy` if its head is greedy."""
    if network.actions.greedy:
        return GreedyPolicy(network, spec, seed, deterministic=deterministic, explorer=explorer)
    return Policy(network, spec, seed, deterministic=deterministic)


def _decision(agents: NDArray[np.int32], actions: ActionTuple) -> Decision:
    width = actions.continuous.shape[1] + actions.discrete.shape[1]
    return Decision(
        agent_id=agents,
        action=actions,
        env_action=actions,
        log_probs=np.zeros((len(agents), width), np.float32),
        entropy=np.zeros(len(agents), np.float32),
    )


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
