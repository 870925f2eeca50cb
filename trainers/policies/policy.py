"""Acts: one forward pass for all agents of one behaviour that wait for a decision."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from mlagents_envs.base_env import ActionTuple, BehaviorSpec, DecisionSteps
from numpy.typing import NDArray
from torch import Tensor

from ...envs.base import Decision
from ..networks.actor import ActingNetwork
from ..networks.modules.exploration import explore
from .fast_forward import RecurrentActor, actor_of, sample_gaussian

logger = logging.getLogger(__name__)


class Policy:
    """The acting side of one behaviour.

    Sampling has a random stream of its own, so that a run with one seed repeats whatever else draws numbers.
    """

    def __init__(
        self, network: ActingNetwork, spec: BehaviorSpec, seed: int, *, deterministic: bool = False
    ) -> None:
        self.network = network
        self.spec = spec
        self._actor = actor_of(network)
        self._recurrent = RecurrentActor(network) if network.memory_size else None
        self._log_sigma = network.actions.log_sigma.detach().numpy()
        self.deterministic = deterministic
        self.exploration = 0.0
        """Share of chance in discrete actions, see `ExploringDistribution`."""
        self.generator = torch.Generator().manual_seed(seed)
        self._warned = False

    @torch.inference_mode()
    def act(
        self, batches: Sequence[DecisionSteps], memory: NDArray[np.float32] | None = None
    ) -> list[Decision]:
        """Decide for every agent of every batch (at least one agent in all); one Decision per batch.

        `memory`: the recurrent states of these agents, [n, memory_size], where the network has a memory.
        """
        obs = [torch.from_numpy(_joined([b.obs[i] for b in batches])) for i in range(len(batches[0].obs))]
        agents = np.asarray(_joined([b.agent_id for b in batches]))
        columns, states = self._columns(obs, None if memory is None else torch.from_numpy(memory))
        if self.spec.action_spec.discrete_size or not self.network.actions.plain:
            whole = self._decide(agents, columns, self._forbidden(batches, agents))
        else:
            whole = self._decide_continuous(agents, columns)
        numbers = float(whole.action.continuous.sum())
        if self.spec.action_spec.discrete_size:  # the choice among logits would not show what they are
            numbers += float(columns.sum())
        if not math.isfinite(numbers):
            raise FloatingPointError(
                "The policy's output is not a finite number. Its weights or the observations went out of "
                "range: lower learning_rate, or set network_settings.normalize: true."
            )
        if states is not None:
            whole = replace(whole, memory=states.numpy())
        return _split(whole, [len(b) for b in batches])

    def _columns(self, obs: Sequence[Tensor], memory: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The columns of the action head, and the agents' new states."""
        if self._recurrent is None:
            return self._actor(obs), None
        assert memory is not None, "a network with a memory needs the agents' states"
        return self._recurrent(obs, memory)

    def _decide_continuous(self, agents: NDArray[np.int32], columns: Tensor) -> Decision:
        """The usual case, in array operations alone: on a few agents they cost half of torch's."""
        noise = None if self.deterministic else torch.randn(columns.shape, generator=self.generator).numpy()
        sampled = sample_gaussian(columns.numpy(), self._log_sigma, noise)
        none = np.zeros((len(agents), 0), dtype=np.int32)
        return Decision(
            agent_id=agents,
            action=ActionTuple(sampled.continuous, none),
            env_action=ActionTuple(sampled.for_engine, none),
            log_probs=sampled.log_probs,
            entropy=sampled.entropy,
        )

    def _decide(self, agents: NDArray[np.int32], columns: Tensor, forbidden: Tensor | None) -> Decision:
        distribution = self.network.actions.distribution(columns, forbidden)
        exploration = 0.0 if self.deterministic else self.exploration
        if exploration:
            distribution = explore(distribution, exploration)
        actions = distribution.deterministic() if self.deterministic else distribution.sample(self.generator)
        discrete = actions.discrete.numpy().astype(np.int32)
        return Decision(
            agent_id=agents,
            action=ActionTuple(actions.continuous.numpy(), discrete),
            env_action=ActionTuple(distribution.to_engine(actions.continuous).numpy(), discrete),
            log_probs=distribution.log_probs(actions).numpy(),
            entropy=distribution.entropy().numpy(),
            exploration=exploration,
        )

    def _forbidden(self, batches: Sequence[DecisionSteps], agents: NDArray[np.int32]) -> Tensor | None:
        """[n, sum of branch sizes], True where the engine forbids an action; None if it forbids none.

        An agent that may do nothing in some branch acts there by chance, all actions being equally likely, or
        by the first one where the policy is deterministic. That is what the logits of forbidden actions come
        to, in the engine too.
        """
        branches = self.spec.action_spec.discrete_branches
        if not branches or all(b.action_mask is None for b in batches):
            return None
        masks = [
            np.zeros((len(b), sum(branches)), np.bool_)
            if b.action_mask is None
            else np.concatenate(b.action_mask, axis=1)
            for b in batches
        ]
        joined = _joined(masks)
        if not joined.any():
            return None
        if not self._warned:
            self._look_for_nothing_allowed(joined, agents)
        return torch.from_numpy(joined)

    def _look_for_nothing_allowed(self, forbidden: NDArray[np.bool_], agents: NDArray[np.int32]) -> None:
        sizes = np.array(self.spec.action_spec.discrete_branches)
        found = np.argwhere(np.logical_and.reduceat(forbidden, np.cumsum(sizes) - sizes, axis=1))
        if not len(found):
            return
        self._warned = True
        row, branch = found[0].tolist()
        logger.warning(
            "Agent %d: its action mask forbids all %d actions of branch %d. It acts there %s. Correct the "
            "agent's WriteDiscreteActionMask. This is said once.",
            *(agents[row], sizes[branch], branch),
            "by the first" if self.deterministic else "by chance",
        )


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _split(whole: Decision, lengths: list[int]) -> list[Decision]:
    if len(lengths) == 1:
        return [whole]
    parts, start = [], 0
    for length in lengths:
        rows = slice(start, start + length)
        parts.append(
            Decision(
                whole.agent_id[rows],
                ActionTuple(whole.action.continuous[rows], whole.action.discrete[rows]),
                ActionTuple(whole.env_action.continuous[rows], whole.env_action.discrete[rows]),
                whole.log_probs[rows],
                whole.entropy[rows],
                None if whole.memory is None else whole.memory[rows],
                whole.exploration,
            )
        )
        start += length
    return parts
