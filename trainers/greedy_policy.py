"""Acts by a greedy network: the best that is known, and something else now and then while agents learn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from mlagents_envs.base_env import ActionTuple, BehaviorSpec, DecisionSteps
from numpy.typing import NDArray
from torch import Tensor

from ..envs.steps import Decision
from .acting_memories import Asking
from .explorers import ActionNoise, EpsilonGreedy, Explorer
from .networks.actor import ActingNetwork
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
