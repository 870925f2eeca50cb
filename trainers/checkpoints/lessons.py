"""The lessons of a curriculum in the checkpoints, so that a resumed run has those that fit its weights."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .file import CheckpointError, load_checkpoint
from .resuming import resumable
from .status import LESSON, SMOOTHED, TrainingStatus

logger = logging.getLogger(__name__)

LESSONS = "lessons"
"""The entry of a checkpoint that holds them: by parameter, what the status file has of it."""


def restore_lessons(run_folder: Path, status: TrainingStatus) -> None:
    """Put the lessons of the newest checkpoint of a run, of any behavior, into its status.

    The status file is written after the checkpoint, and is older than that after a kill between the two.
    Checkpoints of ML-Agents and of older releases have no lessons: the status then stays as it is.

    Raises:
        CheckpointError: what the newest one has as lessons are none.
        TrainingStatusError: a `resume_step` is malformed.
    """
    newest, source, lessons = -1, run_folder, None
    for folder in run_folder.iterdir():
        for path in resumable(folder, folder.name, status) if folder.is_dir() else ():
            try:
                state = load_checkpoint(path)
            except CheckpointError:
                continue  # whoever resumes the behavior warns of it
            written = path.stat().st_mtime_ns
            if written > newest:
                newest, source, lessons = written, path, state.get(LESSONS)
            break
    for parameter, entries in _checked(lessons, source).items():
        own = status.get(parameter, LESSON)
        if status.loaded_ns > newest and own not in (None, entries[LESSON]):
            logger.warning(
                "Parameter '%s' goes on with lesson_num %d, that of %s; the %s of %s does not count. To "
                "train in another lesson, begin a run with --initialize-from and without the ones before it.",
                parameter,
                entries[LESSON],
                source,
                own,
                status.path,
            )
        for key, value in entries.items():
            status.set(parameter, key, value)


def _checked(lessons: Any, source: Path) -> Mapping[str, Mapping[str, float]]:
    """The lessons of a checkpoint, none if it has none. Raises CheckpointError if they are something else."""
    if lessons is None:
        return {}
    parameters = lessons if isinstance(lessons, Mapping) else {LESSONS: lessons}
    for parameter, entries in parameters.items():
        types = {key: type(value) for key, value in entries.items()} if isinstance(entries, Mapping) else {}
        if type(parameter) is not str or types != {LESSON: int, SMOOTHED: float}:
            name = str(parameter)[:100]
            raise CheckpointError(
                f"The checkpoint {source} cannot be resumed from: of the parameter {name!r} it does not have "
                "the number of a lesson and a smoothed reward. Remove it to resume from the one before."
            )
    return parameters
