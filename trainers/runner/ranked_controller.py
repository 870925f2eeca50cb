"""The loop of one of several ranks, which step their environments at their own pace and learn together."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import chain
from typing import Any

from ...envs.base import BehaviorId, BehaviorName, EnvironmentStep
from ..trainer.learner import Learner
from ..utils import distributed
from .controller import TrainerController

logger = logging.getLogger(__name__)


class RankedController(TrainerController):
    """Decides with the other ranks when all of them learn and when the run ends.

    Every rank enters a barrier when its agents have decided often enough, and waits there for the others. All
    ranks reach the same decision, so that they make the same collective calls.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        """Prepare a run; arguments as for `TrainerController`."""
        super().__init__(*args, **options)
        self._ended = False
        """Whether all ranks leave the loop."""
        self._shared: list[str] = []
        """The behaviors that all ranks have seen, in rank 0's order; they are learned."""
        self._announced: set[BehaviorId] = set()
        """The ids that this rank has seen, of which the others know."""
        self._met: list[BehaviorId] = []
        """The ids that any rank has seen."""
        self._has_lessons = any(len(lessons) > 1 for lessons in self.curriculum.lessons.values())
        self._lesson_reset = False
        """Whether a lesson that rank 0 has begun asks for a reset."""

    def _train_until_stopped(self) -> bool:
        try:
            return super()._train_until_stopped()
        except (Exception, KeyboardInterrupt):
            distributed.leave()
            raise

    def _on_early_end(self) -> None:
        """Let the other ranks end too."""
        if not self._ended:
            distributed.sums(True, False)
            self._end()
        super()._on_early_end()

    def _end(self) -> None:
        """Leave the loop, as all ranks do now, and hear with which errors of engines they do."""
        self._ended = True
        errors = distributed.gather(self._errors.stopping)
        self._errors.elsewhere = next((error for error in errors if error is not None), None)

    def _should_continue(self) -> bool:
        self._awaited.check(self.envs, self.learners)
        if self._new and not (self._ended or self._has_work):  # resumed with nothing left to train
            self._barrier(True)
        return not self._ended

    def _add_new_behaviors(self, steps: Sequence[EnvironmentStep]) -> None:
        """Enter a barrier if there are new behaviors or teams, which then act by rank 0's weights."""
        super()._add_new_behaviors(steps)
        if self._learner_of.keys() - self._announced:
            self._barrier(False)

    @property
    def _has_work(self) -> bool:
        return not self._shared or any(learner.should_continue for learner in self._known_learners)

    def _learn(self) -> None:
        """Learn when all ranks do, with the lessons of rank 0."""
        if self._ended:  # at the barrier at which a behavior was announced: none enters another one
            return
        ends = self._should_stop() or not self._has_work
        is_due = ends or any(learner.is_due for learner in self.learners.values())
        if not is_due or not self._barrier(ends):
            return
        self._follow_lessons()
        for learner in self._known_learners:
            learner.learn()
            self._run.display.progress(learner.name, learner.trainer.step)
        for name in self.learners.keys() - set(self._shared):
            self.learners[name].collected.drain()  # it waits for the other ranks, perhaps for ever

    def _barrier(self, ends: bool) -> bool:
        """Wait for the other ranks; return whether all of them learn now.

        Args:
            ends: whether this rank wants the run to end.
        """
        ending, announcing = distributed.sums(ends, bool(self._learner_of.keys() - self._announced))
        if ending:
            self._end()
            self._warn_of_untrained()
        elif announcing:
            self._meet(distributed.gather(list(self._learner_of)))
        return not (self._ended or announcing)

    def _meet(self, known: Sequence[Sequence[BehaviorId]]) -> None:
        """Share the behaviors that every rank has seen, and of these the teams that any rank has.

        Args:
            known: the ids that each rank has seen.
        """
        self._met = list(dict.fromkeys(chain.from_iterable(known)))
        names = [dict.fromkeys(BehaviorName.parse(behavior_id).name for behavior_id in ids) for ids in known]
        for name in names[0]:
            if name not in self._shared and all(name in seen for seen in names):
                self.learners[name].synchronize()
                self._shared.append(name)
        for behavior_id in self._met:
            name = BehaviorName.parse(behavior_id).name
            if name in self._shared:
                self._add_behavior(behavior_id)
                self_play = self.learners[name].self_play
                if self_play is not None:
                    self_play.add_team(behavior_id)
        rotation = self._run.rotation  # in the order in which rank 0 has met the teams
        rotation.load_state_dict(distributed.broadcast(rotation.state_dict()))
        self._announced = set(self._learner_of)

    def _warn_of_untrained(self) -> None:
        """Warn of behaviors that some rank has never seen; rank 0 speaks for all."""
        names = dict.fromkeys(BehaviorName.parse(behavior_id).name for behavior_id in self._met)
        for name in names if distributed.rank() == 0 else ():
            if name not in self._shared:
                logger.warning(
                    "%s was not trained: not every learner's environments (torch_settings.learners) have "
                    "shown it. With --learners 1 one environment that shows it is enough.",
                    name,
                )

    @property
    def _known_learners(self) -> list[Learner]:
        """The learners of the behaviors that every rank has seen."""
        return [self.learners[name] for name in self._shared]

    def _follow_lessons(self) -> None:
        """Take over rank 0's lessons."""
        if not self._has_lessons:
            return
        change = self.curriculum.follow(distributed.broadcast(self.curriculum.numbers))
        if change is not None:
            self._begin_lessons(change)
            self.envs.set_parameters(self.curriculum.samplers())
            self._lesson_reset = self._lesson_reset or change.reset

    def _advance_lessons(self, answers: int) -> bool:
        """Rank 0 measures whether lessons are completed; the others reset for those that they follow."""
        if distributed.rank() == 0:
            return super()._advance_lessons(answers)
        reset, self._lesson_reset = self._lesson_reset, False
        return reset

    def _is_ending(self) -> bool:
        """Whether the run is to end, also because another rank, which waits for this one, is to."""
        if super()._is_ending():
            distributed.end()
        return distributed.ending()

    def stop(self) -> None:
        """End the run as `TrainerController.stop` does; the other ranks learn of it."""
        super().stop()
        distributed.end()
