"""The lessons of a curriculum in the checkpoints, so that a resumed run has those that fit its weights."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from .file import CheckpointError, load_checkpoint
from .manager import resumable
from .status import TrainingStatus

logger = logging.getLogger(__name__)

LESSONS = "lessons"
"""The entry of a checkpoint that holds them: by parameter, what the status file has of it."""


def restore_lessons(run_folder: Path, status: TrainingStatus) -> None:
    """Put the lessons of the newest checkpoint of a run, of any behavior, into its status.

    The status file is written after the checkpoint, and is older than that after a kill between the two.
    Checkpoints of ML-Agents and of older releases have no lessons: the status then stays as it is.
    """
    newest, lessons = -1, None
    for folder in run_folder.iterdir():
        for path in resumable(folder, folder.name) if folder.is_dir() else ():
            try:
                state = load_checkpoint(path)
            except CheckpointError:
                continue  # whoever resumes the behavior warns of it
            written = path.stat().st_mtime_ns
            if written > newest:
                newest, lessons = written, state.get(LESSONS)
            break
    if not isinstance(lessons, Mapping):
        return
    for parameter, entries in lessons.items():
        for key, value in entries.items() if isinstance(entries, Mapping) else ():
            status.set(parameter, key, value)
