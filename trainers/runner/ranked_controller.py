"""The loop of one of several ranks, which step their environments at their own pace and learn together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...envs.base import EnvironmentStep
from ..trainer.learner import Learner
from ..utils import distributed
from .controller import TrainerController


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
        self._announced: set[str] = set()
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
            self._ended = True
        super()._on_early_end()

    def _should_continue(self) -> bool:
        if self._decision_deadline is not None:
            self._check_decision_deadline(self._decision_deadline)
        return not self._ended

    def _add_new_behaviors(self, steps: Sequence[EnvironmentStep]) -> None:
        """Enter a barrier if there are new behaviors: their agents act by rank 0's weights from the start."""
        super()._add_new_behaviors(steps)
        if self.learners.keys() - self._announced:
            self._barrier(False)

    def _learn(self) -> None:
        """Learn when all ranks do, with the lessons of rank 0."""
        if self._ended:  # at the barrier at which a behavior was announced: none enters another one
            return
        has_work = not self._shared or any(learner.should_continue for learner in self._known_learners)
        ends = self._should_stop() or not has_work or distributed.ending()
        is_due = ends or any(learner.is_due for learner in self.learners.values())
        if not is_due or not self._barrier(ends):
            return
        self._follow_lessons()
        for learner in self._known_learners:
            learner.learn()
            self._run.display.progress(learner.name, learner.trainer.step)

    def _barrier(self, ends: bool) -> bool:
        """Wait for the other ranks; return whether all of them learn now.

        Args:
            ends: whether this rank wants the run to end.
        """
        ending, announcing = distributed.sums(ends, bool(self.learners.keys() - self._announced))
        self._ended = ending > 0
        if self._ended or not announcing:
            return not self._ended
        self._announced = set(self.learners)
        known = distributed.gather(list(self.learners))
        for name in known[0]:
            if name not in self._shared and all(name in names for names in known):
                self.learners[name].synchronize()
                self._shared.append(name)
        return False

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
        """Whether the run is to end, also because another rank, which waits for this one, was asked to."""
        return super()._is_ending() or distributed.ending()

    def stop(self) -> None:
        """End the run as `TrainerController.stop` does; the other ranks learn of it."""
        super().stop()
        distributed.end()
