"""One evaluation: all behaviors act in an environment until the counted episodes are over."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from mlagents_envs.base_env import DecisionSteps

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
from ...callbacks.dispatcher import CallbackDispatcher
from ...callbacks.events import EpisodeScore, EvaluationStep
from ...utils.errors import TrainerError
from ...utils.films import Image
from .policy import EvaluationPolicy
from .scores import Scores

logger = logging.getLogger(__name__)

POLL_INTERVAL = 0.25
"""Seconds between checks whether the run is to end, while the engine does not answer."""


class EvaluationRollout:
    """Rolls out the newest policy of every behavior in one environment, greedily."""

    def __init__(
        self,
        envs: EnvManager,
        policies: Mapping[str, EvaluationPolicy],
        scores: Mapping[str, Scores],
        callbacks: CallbackDispatcher,
        steps: Mapping[str, int],
        render: Callable[[], Image | None],
    ) -> None:
        """Prepare.

        Args:
            envs: one environment, started.
            policies: by behavior; agents of other behaviors get zeros.
            scores: of the behaviors that are evaluated.
            callbacks: get an event for every step.
            steps: trainer steps of the behaviors that are evaluated.
            render: renders the environment.
        """
        self.envs = envs
        self.policies = policies
        self.scores = scores
        self.callbacks = callbacks
        self.steps = steps
        self.render = render
        self.statistics: dict[str, list[tuple[float, StatsAggregationMethod]]] = {}
        """The engine's own."""
        self._number = 0
        self._idle = 0
        self._limit = (1 + max(one.episodes for one in scores.values())) * max(
            one.most_decisions for one in scores.values()
        )

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
            self._number += 1

    def _collect(self, step: EnvironmentStep) -> bool:
        """Count what the agents earned; whether all episodes are counted."""
        ended: list[EpisodeScore] = []
        for key, values in step.statistics.items():
            self.statistics.setdefault(key, []).extend(values)
        for behavior_id, (decisions, terminals) in step.steps.items():
            name = BehaviorName.parse(behavior_id).name
            if name in self.policies:
                self.policies[name].collect(step, behavior_id)
            if name in self.scores:
                ended += self.scores[name].add(behavior_id, decisions, terminals, self._number)
        limit = self._limit * max(1, *(scores.num_seats for scores in self.scores.values()))
        if self._number >= limit:
            for scores in self.scores.values():
                ended += scores.cut_all(self._number)
        if self.callbacks.has_hook(EvaluationStep):
            firsts = [first for scores in self.scores.values() for first in scores.firsts()]
            oldest, newest = min(firsts, default=self._number), max(firsts, default=self._number)
            self.callbacks.dispatch(
                EvaluationStep(self._number, step, self.steps, ended, oldest, newest, self.render)
            )
        return self._number >= limit or all(scores.complete for scores in self.scores.values())

    def _act(self, step: EnvironmentStep) -> None:
        """Decide for all agents that request it, one forward pass per behavior, and send the actions."""
        requests: dict[str, list[tuple[BehaviorId, DecisionSteps]]] = {}
        for behavior_id, (batch, _) in step.steps.items():
            name = BehaviorName.parse(behavior_id).name
            if len(batch) and name in self.policies:
                requests.setdefault(name, []).append((behavior_id, batch))
        self._check_idle(requests.keys() & self.scores.keys())
        decided: dict[BehaviorId, Decision] = {}
        for name, entries in requests.items():
            sources = [(step.env, behavior_id) for behavior_id, _ in entries]
            decisions = self.policies[name].act([batch for _, batch in entries], sources)
            decided.update(zip((behavior_id for _, behavior_id in sources), decisions, strict=True))
        self.envs.send(step.env, decided)

    def _check_idle(self, requesting: set[str]) -> None:
        self._idle = 0 if requesting else self._idle + 1
        if self._idle > MAX_IDLE_STEPS:
            raise TrainerError(
                f"in {MAX_IDLE_STEPS} steps no agent of {', '.join(self.scores)} asked for a decision"
            )
