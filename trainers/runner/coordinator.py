"""Lets the ranks of a run, which step their environments at their own pace, learn at the same ticks."""

from __future__ import annotations

from collections.abc import Mapping

from ..curriculum import Curriculum, LessonChange
from ..trainer.learner import Learner
from ..utils import distributed


class RankCoordinator:
    """Decides with the other ranks when all of them learn and when the run ends.

    Every rank joins a meeting when its agents have decided often enough, and waits there for the others. All
    ranks reach the same decision, so that they make the same collective calls.
    """

    def __init__(self, curriculum: Curriculum) -> None:
        self.ended = False
        """All ranks leave the loop."""
        self.behaviors: list[str] = []
        """The behaviors that all ranks have met, in rank 0's order; they are learned."""
        self._announced: set[str] = set()
        self._curriculum = curriculum
        self._has_lessons = any(len(lessons) > 1 for lessons in curriculum.lessons.values())

    def announce(self, learners: Mapping[str, Learner]) -> None:
        """Meet if there are new behaviors: their agents act by rank 0's weights from the start."""
        if learners.keys() - self._announced:
            self._meet(learners, False)

    def should_learn(self, learners: Mapping[str, Learner], should_stop: bool) -> bool:
        """Meet if it is time; whether all ranks learn now.

        Args:
            learners: of this rank, by behavior name.
            should_stop: this rank wants the run to end.
        """
        if self.ended:  # as they met to announce a behavior, and none meets any more
            return False
        behaviors = [learners[name] for name in self.behaviors]
        has_work = not behaviors or any(learner.should_continue for learner in behaviors)
        ends = should_stop or not has_work or distributed.ending()
        is_due = ends or any(learner.is_due for learner in learners.values())
        return is_due and self._meet(learners, ends)

    def end(self) -> None:
        """Meet a last time: this rank's engines have stopped."""
        if not self.ended:
            distributed.sums(True, False)
            self.ended = True

    def new_lessons(self) -> LessonChange | None:
        """Take over rank 0's lessons; what has changed by that."""
        if not self._has_lessons:
            return None
        return self._curriculum.follow(distributed.broadcast(self._curriculum.numbers))

    def _meet(self, learners: Mapping[str, Learner], ends: bool) -> bool:
        ending, announcing = distributed.sums(ends, bool(learners.keys() - self._announced))
        self.ended = ending > 0
        if self.ended or not announcing:
            return not self.ended
        self._announced = set(learners)
        known = distributed.gather(list(learners))
        for name in known[0]:
            if name not in self.behaviors and all(name in names for names in known):
                learners[name].synchronize()
                self.behaviors.append(name)
        return False
