"""Tells the callbacks of a run's beginning and end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ..settings.options import RunOptions
from .events import TrainingBegin, TrainingEnd
from .hub import CallbackHub


@contextmanager
def told(
    callbacks: CallbackHub, options: RunOptions, folder: Path, steps: Callable[[], Mapping[str, int]]
) -> Iterator[None]:
    """Within, the run takes place. The callbacks have their states, if it is resumed, and know of its end.

    Args:
        callbacks: of the run.
        options: of the run.
        folder: the run's.
        steps: trainer steps so far, by behaviour.

    Raises:
        CallbackError: a callback fails at the beginning or, behind a run that has not failed, at the end.
        TrainerError: the states cannot be read.
    """
    settings = options.checkpoint_settings
    if settings.resume:
        callbacks.load_states()
    error: BaseException | None = None
    try:
        callbacks.tell(TrainingBegin(settings.run_id, folder, options, settings.resume))
        callbacks.raise_failure()
        yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        counted = dict(steps())
        brains = {name: folder / f"{name}.onnx" for name in counted}
        there = {name: path for name, path in brains.items() if path.exists()}
        callbacks.tell(TrainingEnd(folder, counted, there, callbacks.reason, error))
        if error is None:
            callbacks.raise_failure()
