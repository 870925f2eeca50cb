"""What a run does about the errors that its engines print: it keeps them, sums them up, and may end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ...envs.engines.engine_errors import EngineError, EngineErrors, ErrorPolicy, summary
from ..callbacks.events import EngineErrorPrinted
from ..checkpoints.engine_errors import ErrorRecord, RecordedErrors, errors_file, errors_files
from ..settings.options import RunOptions
from ..stats.event_files import OF_INFERENCE
from ..utils.errors import TrainerError

if TYPE_CHECKING:
    from ..callbacks.dispatcher import CallbackDispatcher

logger = logging.getLogger(__name__)


class StoppedByEngineError(TrainerError):
    """An engine has printed an error, and the user wants the run to end then.

    Args:
        error: The first one.
        saved: Whether something was learned, which is saved.
    """

    def __init__(self, error: EngineError, *, saved: bool) -> None:
        where = "" if error.log is None else f" Its log: {error.log}."
        then = (
            "What was learned is saved: correct the game, and go on with --resume."
            if saved
            else "Nothing was learned: correct the game, and give the same command again."
        )
        super().__init__(
            f"{error.environment} ({error.engine}) has printed an error, with which the run ends "
            f"(env_settings.engine_errors: stop): {error}.{where} {then} With --engine-errors warn errors "
            "are told, and the run goes on."
        )


def raise_stop(errors: RecordedErrors, *, saved: bool) -> None:
    """End the run with an error's message if the user wants that.

    Raises:
        StoppedByEngineError: An engine has printed an error, and the policy is to stop.
    """
    if errors.stopping is not None:
        raise StoppedByEngineError(errors.stopping, saved=saved)


def dispatch_new(
    printed: EngineErrors, callbacks: CallbackDispatcher, steps: Callable[[], Mapping[str, int]]
) -> None:
    """Tell callbacks of the errors of new kinds; `steps` returns the trainer steps so far, by behavior."""
    for error in printed.take_new():
        event = EngineErrorPrinted(
            engine=error.engine,
            environment=error.environment,
            text=error.text,
            place=error.place,
            log=error.log,
            is_warning=error.is_warning,
            steps=steps(),
        )
        callbacks.dispatch(event)


@contextmanager
def errors_recorded(options: RunOptions, folder: Path, rank: int = 0) -> Iterator[RecordedErrors]:
    """Where the engines of this process put their errors; recorded and summed up after the block.

    Args:
        options: Of the run.
        folder: The run's.
        rank: Of this process. Others have files of their own, and a console that nobody sees: rank 0 sums
            them up too.

    Raises:
        StoppedByEngineError: The policy is to stop, and what another rank's engines printed at their very end
            is the only error.
    """
    settings = options.checkpoint_settings
    apart = OF_INFERENCE if settings.inference and settings.resume else ""
    printed = EngineErrors(ErrorPolicy(options.env_settings.engine_errors))
    recorded = RecordedErrors(printed, errors_file(folder, rank, apart), resumed=settings.resume)
    if rank == 0 and not settings.resume:  # those of a start that failed before anything was learned
        for path in errors_files(folder):
            with suppress(OSError):
                path.unlink()
    several = rank == 0 and options.torch_settings.learners > 1
    before = _of_others(folder) if several else {}
    elsewhere: EngineError | None = None
    try:
        yield recorded
    finally:
        recorded.save()
        if printed.total:
            logger.warning("%s", summary(printed))
        for path, record in (_of_others(folder) if several else {}).items():
            new = record.since(before.get(path, ErrorRecord()))
            if new.total:
                name = path.stem.rpartition("-")[2]
                logger.warning("The environments of learner %s have printed %s", name, record.in_words())
            elsewhere = elsewhere or next((e.first for e in new.kinds if not e.first.is_warning), None)
    if elsewhere is not None and printed.policy is ErrorPolicy.STOP:  # printed as its engines were closed
        raise StoppedByEngineError(elsewhere, saved=not settings.inference)


def _of_others(folder: Path) -> dict[Path, ErrorRecord]:
    """What the other ranks have recorded; nothing of a file that cannot be read, which its rank tells."""
    own, found = errors_file(folder), dict[Path, ErrorRecord]()
    for path in errors_files(folder):
        if path != own:
            with suppress(OSError, ValueError):
                found[path] = ErrorRecord.read(path)
    return found
