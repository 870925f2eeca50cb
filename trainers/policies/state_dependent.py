"""Acts with generalized state-dependent exploration (Raffin et al. 2021, arXiv 2005.05719).

`ActionHead` has its formulas.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec, DecisionSteps
from numpy.typing import NDArray
from torch import Tensor

from ...envs.base import BehaviorId, Decision, EnvironmentStep
from ..networks.actor import ActingNetwork
from ..networks.modules.heads import ActionHead
from .agent_states import AgentStates, BatchSource
from .policy import ActContext, Policy, decision_of

Floats = NDArray[np.float32]


class StateDependentNoise:
    """The functions of the state by which agents explore: W^T f, with the features f of a policy.

    Every agent has a W of its own, as every environment has in Stable-Baselines3: it is sampled when an
    episode starts, and again after so many decisions of this agent. What is kept of an agent is W / sigma,
    standard Gaussian numbers, and like its recurrent state by environment, team and id until the episode
    ends. So an id that comes again gets another W; policies that act for an agent in turn, as opponents in
    self-play, and updates in mid-episode use it with their own sigma, so that actions always have the
    deviation that the likelihood assumes; and nothing has to be saved: a resumed run starts with new episodes
    and the saved generator.
    """

    def __init__(self, features: int, actions: int, interval: int) -> None:
        """W is [features, actions], for `interval` decisions."""
        self.interval = interval
        self._functions = AgentStates(features * actions)
        self._left = AgentStates(1)
        """For how many decisions each agent's function is still to be used."""

    def __call__(
        self,
        sources: Sequence[BatchSource],
        batches: Sequence[DecisionSteps],
        features: Floats,
        sigma: Floats,
        generator: torch.Generator,
    ) -> Floats:
        """[n, A]: what is added to the means of the agents of all batches, one batch after another.

        Args:
            sources: of each batch, by which its agents are recognized.
            batches: the agents.
            features: [n, L] of the policy.
            sigma: [L, A] the deviations of the entries of W.
            generator: of the functions that are sampled now.
        """
        functions, left = self._functions.read(sources, batches), self._left.read(sources, batches)
        due = left[:, 0] < 1.0
        if due.any():
            functions[due] = torch.randn((int(due.sum()), functions.shape[1]), generator=generator).numpy()
            left[due] = self.interval
            self._functions.store(sources, batches, functions)
        self._left.store(sources, batches, left - np.float32(1.0))
        w = functions.reshape(-1, *sigma.shape)
        w *= sigma
        noise: Floats = np.matmul(features[:, None], w)[:, 0]
        return noise

    def end_episodes(self, step: EnvironmentStep, behavior_id: BehaviorId) -> None:
        """Drop the functions of agents whose episodes end with this message, or are void because of it."""
        self._functions.end_episodes(step, behavior_id)
        self._left.end_episodes(step, behavior_id)


def noise_of(network: object) -> StateDependentNoise | None:
    """The noise of a network's agents; None unless its exploration is a function of the state."""
    head = getattr(network, "actions", None)
    if not isinstance(head, ActionHead) or head.exploration is None:
        return None
    features, actions = head.log_sigma.shape
    return StateDependentNoise(features, actions, head.exploration.resample_interval)


class StateDependentPolicy(Policy):
    """A `Policy` of a network whose exploration is a function of the state."""

    def __init__(
        self,
        network: ActingNetwork,
        spec: BehaviorSpec,
        seed: int,
        *,
        deterministic: bool = False,
        noise: StateDependentNoise | None = None,
    ) -> None:
        """`noise`: of the agents, shared by policies that act for them in turn.

        None: of each decision by itself, with the same deviations, as exported brains sample.
        """
        super().__init__(network, spec, seed, deterministic=deterministic)
        self.noise = noise
        assert isinstance(network.actions, ActionHead)
        self._head = network.actions

    def kind(self) -> None:
        """Return None: what is drawn depends on more than the columns, so that the policy acts by itself."""
        return None

    def forward(
        self, obs: Sequence[Tensor], memory: Tensor | None, context: ActContext
    ) -> tuple[Tensor, Tensor | None]:
        """The columns of the action head with log sigmas, then the features; the agents' new states."""
        if self._recurrent is None:
            features = self._actor.encode(obs)
        else:
            assert memory is not None, "a network with a memory needs the agents' states"
            features, memory = self._recurrent.encode(obs, memory)
        head = self._head
        columns = (self._actor.head(features), head.feature_log_sigma(features), features)
        return torch.cat(columns, 1), memory

    def _decide(
        self,
        batches: Sequence[DecisionSteps],
        agents: NDArray[np.int32],
        columns: Tensor,
        context: ActContext,
        states: Floats | None,
    ) -> Decision:
        """Like `Policy._decide`; `columns` as of `forward`."""
        size, width = len(self._head.log_sigma), self._head.continuous_size
        columns, features = columns[:, :-size], columns[:, -size:]
        generator = None if self.deterministic else self.generator
        noise = None
        if generator is not None and self.noise is not None:
            sigma = self._head.log_sigma.detach().exp().numpy()
            raw = self.noise(context.sources, batches, features.numpy(), sigma, generator)
            noise = torch.from_numpy(raw) / columns[:, -width:].exp()
        exploration = 0.0 if self.deterministic else context.exploration
        mask = self.action_mask(batches, agents)
        drawn = self.sampler(columns, mask, generator, exploration, noise)
        return decision_of(agents, drawn, states, exploration)
