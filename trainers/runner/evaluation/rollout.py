"""One test: all behaviours act in an environment until the counted episodes are over."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from mlagents_envs.base_env import DecisionSteps

from ....envs.base import BehaviorId, BehaviorName, Decision, EnvironmentStep
from ....envs.manager.async_env import Parameters
from ....envs.manager.manager import EnvManager
from ...callbacks.dispatcher import CallbackDispatcher
from ...callbacks.events import EpisodeScore, EvaluationStep, Picture
from ...utils.errors import TrainerError
from .policy import EvaluationPolicy
from .scores import Scores

logger = logging.getLogger(__name__)

WAIT = 0.25
"""Seconds between looks at whether the run is to end, while the engine does not answer."""
PATIENCE = 10_000
"""Steps of the environment without any decision after which nobody waits for one any longer."""


class EvaluationRollout:
    """Plays one environment with the newest policy of every behaviour, greedily."""

    def __init__(
        self,
        envs: EnvManager,
        policies: Mapping[str, EvaluationPolicy],
        scores: Mapping[str, Scores],
        callbacks: CallbackDispatcher,
        steps: Mapping[str, int],
        picture: Callable[[], Picture | None],
    ) -> None:
        """Prepare.

        Args:
            envs: one environment, started.
            policies: by behaviour; agents of others get zeros.
            scores: of those that are tested.
            callbacks: told of every step.
            steps: trainer steps of those that are tested.
            picture: draws the environment.
        """
        self.envs = envs
        self.policies = policies
        self.scores = scores
        self.callbacks = callbacks
        self.steps = steps
        self.picture = picture
        self._number = 0
        self._idle = 0
        self._limit = (1 + max(one.episodes for one in scores.values())) * max(
            one.most_decisions for one in scores.values()
        )

    def run(self, parameters: Parameters, stopping: Callable[[], bool]) -> bool:
        """Play until all is counted. False: the run is to end, and the test was broken off.

        Raises:
            TrainerError: no agent asks for a decision.
            UnityException: the engine fails.
        """
        (step,) = self.envs.reset(parameters)
        while True:
            if self._take(step):
                return True
            self._answer(step)
            answers: list[EnvironmentStep] = []
            while not answers:
                if stopping():
                    return False
                answers = self.envs.wait(WAIT)
            (step,) = answers
            self._number += 1

    def _take(self, step: EnvironmentStep) -> bool:
        """Count what the agents say; whether all is counted."""
        ended: list[EpisodeScore] = []
        for behavior_id, (decisions, terminals) in step.steps.items():
            name = BehaviorName.parse(behavior_id).name
            if name in self.policies:
                self.policies[name].see(step, behavior_id)
            if name in self.scores:
                ended += self.scores[name].take(behavior_id, decisions, terminals, self._number)
        if self._number >= self._limit:
            for scores in self.scores.values():
                ended += scores.cut_all(self._number)
        if self.callbacks.hears(EvaluationStep):
            firsts = [first for scores in self.scores.values() for first in scores.firsts()]
            oldest, newest = min(firsts, default=self._number), max(firsts, default=self._number)
            self.callbacks.tell(
                EvaluationStep(self._number, step, self.steps, ended, oldest, newest, self.picture)
            )
        return self._number >= self._limit or all(scores.over for scores in self.scores.values())

    def _answer(self, step: EnvironmentStep) -> None:
        """Decide for all agents that wait, one forward pass per behaviour."""
        waiting: dict[str, list[tuple[BehaviorId, DecisionSteps]]] = {}
        for behavior_id, (decisions, _) in step.steps.items():
            name = BehaviorName.parse(behavior_id).name
            if len(decisions) and name in self.policies:
                waiting.setdefault(name, []).append((behavior_id, decisions))
        self._look_for_patience(waiting.keys() & self.scores.keys())
        answers: dict[BehaviorId, Decision] = {}
        for name, entries in waiting.items():
            asking = [(step.env, behavior_id) for behavior_id, _ in entries]
            decided = self.policies[name].act(asking, [decisions for _, decisions in entries])
            answers.update((behavior_id, one) for (_, behavior_id), one in zip(asking, decided, strict=True))
        self.envs.send(step.env, answers)

    def _look_for_patience(self, asked: set[str]) -> None:
        self._idle = 0 if asked else self._idle + 1
        if self._idle > PATIENCE:
            raise TrainerError(
                f"in {PATIENCE} steps no agent of {', '.join(self.scores)} asked for a decision"
            )
