"""The acting side of a behaviour in a test: the newest network, with nothing left to chance."""

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
from ...policies.agent_states import ActingMemories, Asking
from ...policies.slot_policy import SlotPolicy
from ...trainer.factory import make_policy

_SEED = 0
"""Of a policy that draws nothing."""


class EvaluationPolicy:
    """Acts for one behaviour in tests, by a copy of its network: what it does leaves no trace in the trainer.

    Its recurrent states and its places are its own too, and begin anew with every test.
    """

    __test__ = False

    def __init__(self, spec: BehaviorSpec, network: Any, time_horizon: int, places: int) -> None:
        """Copy the network.

        Args:
            spec: the behaviour's.
            network: that acts in the training.
            time_horizon: of the trainer.
            places: of the rosters in which agents have places; 0 without.
        """
        self._spec = spec
        self._horizon = time_horizon
        self._places = places
        self._network = copy.deepcopy(network).cpu().requires_grad_(False)
        self._policy = make_policy(self._network, spec, _SEED, deterministic=True)
        self.begin({})

    @property
    def acts_by_place(self) -> bool:
        """What agents say has to be taken in before they act: that is when they get their places."""
        return isinstance(self._policy, SlotPolicy)

    def begin(self, weights: Mapping[str, torch.Tensor]) -> None:
        """A test begins, of these weights (a network's `state_dict`; empty for those that are there)."""
        if weights:
            self._network.load_state_dict(weights)
        size = self._network.memory_size
        self._memories = ActingMemories(size) if size else None
        self._processors: dict[BehaviorId, AgentProcessor] = {}

    def see(self, step: EnvironmentStep, behavior_id: BehaviorId) -> None:
        """Take in what the agents of one of the behaviour's ids say, before they act."""
        if self._memories is not None:
            self._memories.end(step, behavior_id)
        if not self.acts_by_place or behavior_id not in step.steps:
            return
        if behavior_id not in self._processors:
            self._processors[behavior_id] = AgentProcessor(
                *(behavior_id, self._spec, self._horizon, _Nobody()),
                memory_size=self._network.memory_size,
                places=self._places,
            )
        decisions, terminals = step.steps[behavior_id]
        self._processors[behavior_id].add_experiences(
            decisions,
            terminals,
            step.env,
            step.decisions.get(behavior_id),
            step.lost_lives.get(behavior_id),
        )

    def act(self, asking: Sequence[Asking], batches: Sequence[DecisionSteps]) -> list[Decision]:
        """Decide for these agents, at least one in all; `asking` says whose they are, batch by batch."""
        if isinstance(self._policy, SlotPolicy):
            places = [
                self._processors[behavior_id].places(env, np.asarray(batch.agent_id))
                for (env, behavior_id), batch in zip(asking, batches, strict=True)
            ]
            self._policy.places = torch.from_numpy(np.concatenate(places))
        if self._memories is None:
            return self._policy.act(batches)
        decided = self._policy.act(batches, self._memories.read(asking, batches))
        self._memories.store(asking, decided)
        return decided


class _Nobody:
    """Takes statistics that nobody wants: a processor reports what the training would."""

    def add_stat(self, key: str, value: float, aggregation: StatsAggregationMethod) -> None:
        """Forget the value."""

    def add_stats(self, key: str, values: ArrayLike, aggregation: StatsAggregationMethod) -> None:
        """Forget the values."""

    def set_stat(self, key: str, value: float) -> None:
        """Forget the value."""
