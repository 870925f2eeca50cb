"""Acts: one forward pass for all agents of one behaviour that wait for a decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from mlagents_envs.base_env import ActionTuple, BehaviorSpec, DecisionSteps
from numpy.typing import NDArray
from torch import Tensor

from ..envs.steps import Decision
from .networks.actor_critic import ActorCritic


class Policy:
    """The acting side of one behaviour.

    Sampling has a random stream of its own, so that a run with one seed repeats whatever else draws numbers.
    """

    def __init__(
        self, network: ActorCritic, spec: BehaviorSpec, seed: int, *, deterministic: bool = False
    ) -> None:
        self.network = network
        self.spec = spec
        self.deterministic = deterministic
        self.generator = torch.Generator().manual_seed(seed)

    @torch.inference_mode()
    def act(self, batches: Sequence[DecisionSteps]) -> list[Decision]:
        """Decide for every agent of every batch (at least one agent in all); one Decision per batch."""
        obs = [torch.from_numpy(_joined([b.obs[i] for b in batches])) for i in range(len(batches[0].obs))]
        distribution = self.network.act(self.network.prepare(obs), self._forbidden(batches))
        actions = distribution.deterministic() if self.deterministic else distribution.sample(self.generator)
        sampled = actions.continuous.numpy()
        whole = Decision(
            agent_id=np.asarray(_joined([b.agent_id for b in batches])),
            action=_action(sampled, actions.discrete.numpy()),
            env_action=_action(distribution.to_engine(actions.continuous).numpy(), actions.discrete.numpy()),
            log_probs=distribution.log_probs(actions).numpy(),
            entropy=distribution.entropy().numpy(),
        )
        if not np.isfinite(sampled.sum()):
            raise FloatingPointError(
                "The policy's continuous action is not a finite number. Its weights or the observations went "
                "out of range: lower learning_rate, or set network_settings.normalize: true."
            )
        return _split(whole, [len(b) for b in batches])

    def _forbidden(self, batches: Sequence[DecisionSteps]) -> Tensor | None:
        """[n, sum of branch sizes], True where the engine forbids an action; None if it forbids none."""
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
        return torch.from_numpy(joined) if joined.any() else None


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _action(continuous: NDArray[np.float32], discrete: NDArray[np.int64]) -> ActionTuple:
    return ActionTuple(continuous, discrete.astype(np.int32))


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
            )
        )
        start += length
    return parts
