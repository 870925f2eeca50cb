"""The moment from which all behaviors of a run resume together.

Their checkpoints fall due at steps of their own. When one has been saved, the others write their weights too,
and the status file names the steps of all in one write (`checkpoints/resuming.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..checkpoints.resuming import resume_step
from ..trainer.learner import Learner
from ..utils import distributed


def has_new_checkpoint(learners: Sequence[Learner]) -> bool:
    """Whether one of the learners has saved since the last resume point."""
    return any(learner.checkpointer.newly_saved for learner in learners)


def set_resume_point(learners: Sequence[Learner], *, save_others: bool = True) -> None:
    """Let the run resume from this moment, at which at least one of the learners has saved.

    A run of one behavior resumes from its newest checkpoint: then nothing is written. If a file cannot be
    written, which is logged, the moment before stays.

    Args:
        learners: all of the run; none of them learns meanwhile.
        save_others: save those that have not saved by themselves; otherwise nothing changes if there are any.

    Raises:
        CheckpointError: a state must not be saved.
    """
    steps = {}
    for learner in learners:
        checkpointer = learner.checkpointer
        if checkpointer.newly_saved and checkpointer.saved_step is not None:
            steps[learner.name] = checkpointer.saved_step
        checkpointer.newly_saved = False
    if not _is_shared(learners):
        return
    for learner in learners:
        if learner.name not in steps:
            if not save_others or not learner.checkpointer.save_with_others():
                return
            steps[learner.name] = learner.trainer.step
    if distributed.rank():  # rank 0 writes the status file
        return
    managers = [learner.checkpointer.checkpoints for learner in learners]
    for manager in managers:
        manager.set_resume_step(steps[manager.behavior])
    if managers[0].save_status():
        for manager in managers:
            manager.remove_former_resume_steps()


def _is_shared(learners: Sequence[Learner]) -> bool:
    """Whether there are several behaviors, or were when the run was saved before."""
    if len(learners) == 1:
        manager = learners[0].checkpointer.checkpoints
        return resume_step(manager.status, manager.behavior) is not None
    return len(learners) > 1
