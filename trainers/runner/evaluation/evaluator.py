"""The tests of a run: when one is due, the training waits, and all behaviours are tested together.

Keeps what a test draws by chance from what the training draws.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch

from ....envs.manager.async_env import Parameters
from ...callbacks.dispatcher import CallbackDispatcher
from .environment import TEST_SEED, EvaluationEnvironment, quiet
from .policy import EvaluationPolicy
from .report import report
from .rollout import EvaluationRollout
from .scores import Scores

if TYPE_CHECKING:
    from ...trainer.learner import Learner


logger = logging.getLogger(__name__)


class Evaluator:
    """Tests the newest policies in an environment of their own, which is launched for every test.

    An environment that is launched anew with one seed asks every policy the same, so that tests can be
    compared; and between tests it costs nothing. What goes wrong in a test is said, and the training goes on.
    """

    def __init__(
        self,
        environment: EvaluationEnvironment,
        callbacks: CallbackDispatcher,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._environment = environment
        self._callbacks = callbacks
        self._clock = clock
        self._policies: dict[str, EvaluationPolicy] = {}

    def due(self, learners: Mapping[str, Learner]) -> bool:
        """Whether a behaviour is to be tested now."""
        return any(learner.tests.is_due(learner.trainer.step) for learner in learners.values())

    def run(
        self, learners: Mapping[str, Learner], parameters: Parameters, stopping: Callable[[], bool]
    ) -> None:
        """Test the behaviours that are ever tested, by the weights of this moment; nobody learns meanwhile.

        Args:
            learners: of all behaviours, by name; those that are never tested act too.
            parameters: what environments are told.
            stopping: whether the run is to end; the test is then broken off, and is due again.
        """
        tested = {name: learner for name, learner in learners.items() if learner.tests.on}
        scores = {
            name: Scores(name, one.settings.test_episodes, one.settings.test_max_decisions)
            for name, one in tested.items()
        }
        began = self._clock()
        try:
            with fenced(TEST_SEED), quiet():
                whole = self._play(learners, scores, parameters, stopping)
        except Exception as error:  # an engine, or a game of the user's: no reason to end the training
            for name, learner in tested.items():
                learner.tests.tested(learner.trainer.step)
                logger.warning(
                    "%s: the test at step %d failed, and is left out; training goes on. %s: %s",
                    *(name, learner.trainer.step, type(error).__name__, error),
                    exc_info=logger.isEnabledFor(logging.DEBUG),
                )
            return
        if not whole:
            logger.info("The test was broken off; a resumed run begins with it.")
            return
        seconds = self._clock() - began
        for name, learner in tested.items():
            learner.tests.tested(learner.trainer.step)
            report(learner, scores[name], seconds)

    def _play(
        self,
        learners: Mapping[str, Learner],
        scores: Mapping[str, Scores],
        parameters: Parameters,
        stopping: Callable[[], bool],
    ) -> bool:
        for name, learner in learners.items():
            if name not in self._policies:
                self._policies[name] = EvaluationPolicy(
                    *(learner.spec, learner.algorithm.network, learner.settings.time_horizon),
                    learner.algorithm.traits.roster_size,
                )
            self._policies[name].begin(learner.algorithm.network.state_dict())
        steps = {name: learners[name].trainer.step for name in scores}
        with self._environment.launched(drawn=self._callbacks.wants_pictures) as envs:
            picture = self._environment.picture
            trial = EvaluationRollout(envs, self._policies, scores, self._callbacks, steps, picture)
            return trial.run(parameters, stopping)


@contextmanager
def fenced(seed: int) -> Iterator[None]:
    """Within, the process's common random streams (Python's, NumPy's, torch's) begin at `seed`.

    Behind, they go on as if nothing had been drawn. Games in this process may draw from them.
    """
    before = random.getstate(), np.random.get_state(), torch.random.get_rng_state()
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        torch.random.set_rng_state(before[2])
