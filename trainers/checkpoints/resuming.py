"""Which checkpoint a behavior is resumed from, and the lessons that a run continues with.

Behaviors save their checkpoints at steps of their own. So that those of a run resume from one moment, all of
them are saved whenever one is, and the status file names the step at which each resumes: `resume_step`. It
is written whole or not at all, so that a kill between the files leaves the moment before.
"""

from __future__ import annotations

import filecmp
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .file import CheckpointError, load_checkpoint, numbered_checkpoints
from .status import LESSON, SMOOTHED, TrainingStatus, TrainingStatusError, listed
from .transfer import LATEST

logger = logging.getLogger(__name__)

LESSONS = "lessons"
"""The entry of a checkpoint that holds the lessons: by parameter, what the status file has of it."""
RESUME_STEP = "resume_step"
"""Our own key in training_status.json, in runs of several behaviors."""
LATEST_STEP = "latest_step"
"""Our own key there once `checkpoint.pt` could not be written: the step of the checkpoint that it holds."""


def resume_step(status: TrainingStatus, behavior: str) -> int | None:
    """The step at which a behavior resumes together with the others; None if the status names none.

    Raises:
        TrainingStatusError: what it names is no step.
    """
    step = status.get(behavior, RESUME_STEP)
    if step is None:
        return None
    if type(step) is not int or step < 0:
        raise TrainingStatusError(
            f"{status.path}: {behavior}.{RESUME_STEP}: found {step!r}, expected a whole number, 0 or more. "
            "Remove the entry to resume from the behavior's newest checkpoint."
        )
    return step


def resumable(folder: Path, behavior: str, status: TrainingStatus) -> list[Path]:
    """What a behavior may be resumed from, of the files in its folder, the best first.

    First comes the checkpoint of its `resume_step`, except where the user has copied an older one to
    `checkpoint.pt`, in order to go back. Then come `checkpoint.pt` and the numbered ones, the newest first;
    before it the newest, if a kill came between the two.

    Raises:
        TrainingStatusError: an entry of the status file is malformed.
    """
    numbered = numbered_checkpoints(folder, behavior)
    files, latest = [path for _, path in numbered], folder / LATEST
    if not latest.exists():
        ordered = files or [latest]
    elif _is_older_copy(latest, numbered, status, behavior):
        return [latest, *files]
    else:
        written = latest.stat().st_mtime_ns
        ahead = [path for path in files[:1] if path.stat().st_mtime_ns > written]
        ordered = [*ahead, latest, *files[len(ahead) :]]
    step = resume_step(status, behavior)
    chosen = None if step is None else dict(numbered).get(step)
    if chosen is None or _went_back(latest, files, status.loaded_ns):
        return ordered
    return [chosen, *(path for path in ordered if path != chosen)]


def _is_older_copy(
    latest: Path, numbered: list[tuple[int, Path]], status: TrainingStatus, behavior: str
) -> bool:
    """Whether `checkpoint.pt` is a copy of an older checkpoint than the last save left there.

    Times of files do not tell: copies have the original's on Windows and with `cp -p`.
    """
    entries = listed(status, behavior, "checkpoints")
    left = status.get(behavior, LATEST_STEP)
    if not isinstance(left, int):
        left = entries[-1].steps if entries else -1
    return any(step < left and _same(latest, path) for step, path in numbered)


def _same(one: Path, other: Path) -> bool:
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:  # reading it again tells why
        return False


def _went_back(latest: Path, numbered: list[Path], status_written: int) -> bool:
    """Whether `checkpoint.pt` alone is newer than the status file, which every save writes last."""
    return (
        latest.exists()
        and latest.stat().st_mtime_ns > status_written
        and all(path.stat().st_mtime_ns <= status_written for path in numbered)
    )


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
                state = load_checkpoint(path, within=run_folder)
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
