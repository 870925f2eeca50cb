"""Inference for one behavior in an evaluation: the newest network, without sampling or exploration."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec, DecisionSteps
from numpy.typing import ArrayLike

from ....agent_processor.processor import AgentProcessor
from ....envs.base import BehaviorId, Decision, EnvironmentStep, StatsAggregationMethod
from ...policies.agent_states import AgentStates, BatchSource
from ...policies.policy import ActContext, SlotPolicy
from ...trainer.factory import make_policy

_SEED = 0
"""Of a policy that samples nothing."""


class EvaluationPolicy:
    """Acts for one behavior in evaluations with a copy of its network, without any effect on its trainer.

    Its recurrent states and group slots are its own too, and start from scratch with every evaluation.
    """

    def __init__(self, spec: BehaviorSpec, network: Any, time_horizon: int, slots: int) -> None:
        """Copy the network.

        Args:
            spec: the behavior's.
            network: the one that acts in training.
            time_horizon: of the trainer.
            slots: how many each group has, for policies that act by slot; else 0.
        """
        self._spec = spec
        self._horizon = time_horizon
        self._slots = slots
        self._network = copy.deepcopy(network).cpu().requires_grad_(False)
        self._policy = make_policy(self._network, spec, _SEED, deterministic=True)
        self.acts_by_slot = isinstance(self._policy, SlotPolicy)
        """Steps have to be collected before agents act: that is when agents get their group slots."""
        self.reset({})

    def reset(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Start an evaluation with these weights (a `state_dict`; empty to keep the current ones)."""
        if weights:
            self._network.load_state_dict(weights)
        size = self._network.memory_size
        self._states = AgentStates(size) if size else None
        self._processors: dict[BehaviorId, AgentProcessor] = {}

    def collect(self, step: EnvironmentStep, behavior_id: BehaviorId) -> None:
        """Process what the agents of one of the behavior's ids observed, before they act."""
        if self._states is not None:
            self._states.end_episodes(step, behavior_id)
        if not self.acts_by_slot or behavior_id not in step.steps:
            return
        if behavior_id not in self._processors:
            self._processors[behavior_id] = AgentProcessor(
                behavior_id,
                self._spec,
                self._horizon,
                _NullSink(),
                memory_size=self._network.memory_size,
                places=self._slots,
            )
        decisions, terminals = step.steps[behavior_id]
        self._processors[behavior_id].add_experiences(
            decisions,
            terminals,
            step.env,
            step.decisions.get(behavior_id),
            step.lost_lives.get(behavior_id),
        )

    def act(self, batches: Sequence[DecisionSteps], sources: Sequence[BatchSource]) -> list[Decision]:
        """Decide for these agents, at least one in all; `sources`: the environment and id of each batch."""
        slots = None
        if isinstance(self._policy, SlotPolicy):
            found = [
                self._processors[behavior_id].places(env, np.asarray(batch.agent_id))
                for (env, behavior_id), batch in zip(sources, batches, strict=True)
            ]
            slots = torch.from_numpy(np.concatenate(found))
        return self._policy.act(batches, ActContext(sources, self._states, slots))


class _NullSink:
    """Discards statistics: a processor reports what training would."""

    def add_stat(self, key: str, value: float, aggregation: StatsAggregationMethod) -> None:
        """Discard the value."""

    def add_stats(self, key: str, values: ArrayLike, aggregation: StatsAggregationMethod) -> None:
        """Discard the values."""

    def set_stat(self, key: str, value: float) -> None:
        """Discard the value."""
