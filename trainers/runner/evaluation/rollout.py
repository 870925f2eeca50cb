"""One evaluation: all behaviors act greedily in an environment until the counted episodes are over."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec, DecisionSteps
from numpy.typing import ArrayLike

from ....agent_processor.processor import AgentProcessor
from ....envs.base import (
    MAX_IDLE_STEPS,
    BehaviorId,
    BehaviorName,
    Decision,
    EnvironmentStep,
    StatsAggregationMethod,
)
from ....envs.manager.async_env import Parameters
from ....envs.manager.manager import EnvManager
from ...episodes.scores import EpisodeCounter, EpisodeScore, Scores
from ...policies.agent_states import AgentStates, BatchSource
from ...policies.policy import ActContext, SlotPolicy
from ...trainer.factory import make_policy
from ...utils.errors import TrainerError

_SEED = 0
"""The seed of a policy that samples nothing."""


class EvaluationPolicy:
    """Acts for one behavior in evaluations with a copy of its network, without any effect on its trainer.

    Its recurrent states and group slots are its own too, and start from scratch with every evaluation.
    """

    def __init__(self, spec: BehaviorSpec, network: Any, time_horizon: int, slots: int) -> None:
        """Copy the network.

        Args:
            spec: the behavior's specification.
            network: the network that acts in training.
            time_horizon: the trainer's.
            slots: how many each group has, for policies that act by slot; else 0.
        """
        self._spec = spec
        self._horizon = time_horizon
        self._slots = slots
        self._network = copy.deepcopy(network).cpu().requires_grad_(False)
        self._policy = make_policy(self._network, spec, _SEED, deterministic=True)
        self.acts_by_slot = isinstance(self._policy, SlotPolicy)
        """Whether steps have to be collected before agents act, since agents get their slots then."""
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


logger = logging.getLogger(__name__)

POLL_INTERVAL = 0.25
"""Seconds between checks whether the run is to end, while the engine does not answer."""


Watch = Callable[[int, EnvironmentStep, Sequence[EpisodeScore]], bool]
"""Called with every step's number, the step and the counted episodes that it ends; False ends the rollout."""


class EvaluationRollout:
    """Rolls out the newest policy of every behavior in one environment, greedily."""

    def __init__(
        self,
        envs: EnvManager,
        policies: Mapping[str, EvaluationPolicy],
        scores: Sequence[Scores],
        watch: Watch,
    ) -> None:
        """Prepare to roll out.

        Args:
            envs: one environment, started.
            policies: by behavior; agents of other behaviors get zeros.
            scores: of the behaviors that are evaluated.
            watch: called with every step.
        """
        self.envs = envs
        self.policies = policies
        self.counter = EpisodeCounter(scores)
        self.watch = watch
        self.statistics: dict[str, list[tuple[float, StatsAggregationMethod]]] = {}
        """The engine's own statistics."""

    def run(self, parameters: Parameters, should_stop: Callable[[], bool]) -> bool:
        """Run until all episodes are counted. False: the run is to end, and the evaluation was aborted.

        Raises:
            TrainerError: no agent requests a decision.
            UnityException: the engine fails.
        """
        (step,) = self.envs.reset(parameters)
        while True:
            if self._collect(step):
                return True
            self._act(step)
            answers: list[EnvironmentStep] = []
            while not answers:
                if should_stop():
                    return False
                answers = self.envs.wait(POLL_INTERVAL)
            (step,) = answers

    def _collect(self, step: EnvironmentStep) -> bool:
        """Count what the agents earned; return whether the rollout is over."""
        for key, values in step.statistics.items():
            self.statistics.setdefault(key, []).extend(values)
        for behavior_id in step.steps:
            name = BehaviorName.parse(behavior_id).name
            if name in self.policies:
                self.policies[name].collect(step, behavior_id)
        ended = self.counter.add(step.steps)
        return not self.watch(self.counter.number, step, ended) or self.counter.over

    def _act(self, step: EnvironmentStep) -> None:
        """Decide for all agents that request it, one forward pass per behavior, and send the actions."""
        requests: dict[str, list[tuple[BehaviorId, DecisionSteps]]] = {}
        for behavior_id, (batch, _) in step.steps.items():
            name = BehaviorName.parse(behavior_id).name
            if len(batch) and name in self.policies:
                requests.setdefault(name, []).append((behavior_id, batch))
        if self.counter.idle_steps > MAX_IDLE_STEPS:
            raise TrainerError(
                f"in {MAX_IDLE_STEPS} steps no agent of {', '.join(self.counter.scores)} asked for a decision"
            )
        decided: dict[BehaviorId, Decision] = {}
        for name, entries in requests.items():
            sources = [(step.env, behavior_id) for behavior_id, _ in entries]
            decisions = self.policies[name].act([batch for _, batch in entries], sources)
            decided.update(zip((behavior_id for _, behavior_id in sources), decisions, strict=True))
        self.envs.send(step.env, decided)
