"""Dispatches the events of a run to its callbacks, and reports to the run whether one wants it to stop."""

from __future__ import annotations

import glob
import json
import logging
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

from ...envs.utils.bounded_yaml import load_json
from ...envs.utils.regular_files import is_file_within, read_text
from ..settings.options import RunOptions
from ..stats.summary import StatsSummary
from ..stats.tensorboard import HIDDEN_KEYS
from ..stats.writer import StatsWriter
from ..utils.atomic_files import atomic_write_text
from ..utils.errors import TrainerError
from ..utils.plugins import USER_ERRORS
from .base import Callback
from .events import Event, SummaryDue, TrainingBegin, TrainingEnd

logger = logging.getLogger(__name__)

HOOKS = [name for name in dir(Callback) if name.startswith("on_")]
STATES = "callbacks.json"
"""The file of the callbacks' states, in the run's folder of logs."""


class CallbackError(TrainerError):
    """A callback has failed; the message names it and its hook, `__cause__` is what it raised."""


class CallbackDispatcher:
    """The callbacks of one run, in their order.

    A hook is called in the middle of an operation, so neither its exception nor its request to stop takes
    effect there: the run checks `should_stop` between two ticks.
    """

    def __init__(self, callbacks: Mapping[str, Callback] | None = None, states: Path | None = None) -> None:
        """Register the callbacks.

        Args:
            callbacks: by the names that messages use.
            states: the file of their states; None to keep none.
        """
        self.callbacks = dict(callbacks or {})
        self.failure: CallbackError | None = None
        """The first failure. After it no hook is called any more, except at the end of the training."""
        self.reason: str | None = None
        """Which callback was the first to stop the run, and why."""
        self.should_stop = False
        """Whether a callback has stopped the run, or failed."""
        self._states = states
        self._lock = RLock()
        self._hooks: dict[str, list[tuple[str, Callback]]] = {
            hook: [(name, one) for name, one in self.callbacks.items() if _defines(one, hook)]
            for hook in HOOKS
        }

    def has_hook(self, kind: type[Event]) -> bool:
        """Whether any callback defines the hook for this kind of event."""
        return bool(self._hooks[kind.hook])

    @property
    def wants_frames(self) -> bool:
        """Whether some callback wants evaluations to be rendered."""
        return any(one.wants_frames for one in self.callbacks.values())

    def dispatch(self, event: Event) -> None:
        """Call the hook of every callback that defines it; from any thread, one at a time."""
        callbacks = self._hooks[event.hook]
        if not callbacks:
            return
        with self._lock:
            for name, callback in callbacks:
                if self.failure is None or isinstance(event, TrainingEnd):
                    self._call(name, callback, event)

    def raise_failure(self) -> None:
        """Raise the first failure of a callback, if there is one.

        Raises:
            CallbackError: names the callback and the hook.
        """
        if self.failure is not None:
            raise self.failure

    def _call(self, name: str, callback: Callback, event: Event) -> None:
        try:
            wanted = getattr(callback, event.hook)(event)
            if wanted is not None and not (isinstance(wanted, str) and wanted.strip()):
                raise TypeError(
                    f"it returned {wanted!r}; expected None, or a text that says why the run is to end"
                )
        except USER_ERRORS as error:
            self._failed(name, event.hook, error)
            return
        if wanted is not None and self.reason is None and not isinstance(event, TrainingEnd):
            self.reason = f"The callback {name} ends the training: {wanted.strip()}"
            self.should_stop = True
            logger.info("%s", self.reason)

    def _failed(self, name: str, what: str, error: BaseException) -> None:
        started = what != TrainingBegin.hook
        remedy = "go on with --resume" if started else "give the same command again"
        saved = "What was learned is saved; correct" if started else "The run has not started: correct"
        failure = CallbackError(
            f"The callback {name} failed in {what}{_place(error)}: {type(error).__name__}: {error}. "
            f"{saved} the callback, or remove it, and {remedy}."
        )
        failure.__cause__ = error
        self.should_stop = True
        if self.failure is None:
            self.failure = failure
        else:
            logger.error("%s", failure)

    def save_states(self) -> None:
        """Write the states of the callbacks; a full disk costs a warning."""
        if self._states is None:
            return
        with self._lock:
            states = {}
            for name, callback in self.callbacks.items():
                try:
                    state = callback.state_dict()
                    json.dumps(state, allow_nan=False)
                except USER_ERRORS as error:
                    self._failed(name, "state_dict", error)
                    continue
                if state:
                    states[name] = state
            if not states:
                return
            try:
                self._states.parent.mkdir(parents=True, exist_ok=True)
                atomic_write_text(self._states, json.dumps(states, indent=2) + "\n")
            except OSError as error:
                logger.warning("%s could not be written (%s); training goes on.", self._states, error)

    def load_states(self) -> None:
        """Restore the states that the callbacks had when the run was saved.

        Raises:
            TrainerError: the file cannot be read, or a callback rejects its state.
        """
        if self._states is None or not self._states.exists():
            return
        try:
            states = load_json(read_text(self._states, within=self._states.parent.parent))
            if not isinstance(states, dict):
                raise ValueError(f"found {type(states).__name__}, expected an object")
        except (OSError, ValueError) as error:
            raise TrainerError(
                f"{self._states}, the states of the callbacks, cannot be read: {error}. Remove it to resume "
                "with callbacks in their initial state."
            ) from error
        for name, state in states.items():
            if name not in self.callbacks:
                logger.warning(
                    "The callback %s has a saved state, but is not part of the run any more.", name
                )
                continue
            try:
                self.callbacks[name].load_state_dict(state)
            except USER_ERRORS as error:
                raise TrainerError(
                    f"The callback {name} does not accept its state from {self._states}: "
                    f"{type(error).__name__}: {error}. Remove it there to start the callback without one."
                ) from error


def named(callbacks: Sequence[tuple[str, Callback]]) -> dict[str, Callback]:
    """The callbacks by name; of several with one name the later ones get a number."""
    found: dict[str, Callback] = {}
    for name, callback in callbacks:
        number, unique = 1, name
        while unique in found:
            number += 1
            unique = f"{name}#{number}"
        found[unique] = callback
    return found


def _defines(callback: Callback, hook: str) -> bool:
    return getattr(type(callback), hook) is not getattr(Callback, hook)


def _place(error: BaseException) -> str:
    """Where in the user's file it was raised: ` (watch.py, line 12)`; empty if unknown."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    if not frames:
        return ""
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"


@contextmanager
def training_events(
    callbacks: CallbackDispatcher, options: RunOptions, folder: Path, steps: Callable[[], Mapping[str, int]]
) -> Iterator[None]:
    """Dispatch `TrainingBegin` before the block and `TrainingEnd` after it; restore states if resumed.

    Args:
        callbacks: of the run.
        options: of the run.
        folder: the run's.
        steps: returns the trainer steps so far, by behavior.

    Raises:
        CallbackError: a callback fails at the start or, if the run has not failed, at the end.
        TrainerError: the states cannot be read.
    """
    settings = options.checkpoint_settings
    if settings.resume:
        callbacks.load_states()
    error: BaseException | None = None
    try:
        callbacks.dispatch(TrainingBegin(settings.run_id, folder, options, settings.resume))
        callbacks.raise_failure()
        yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        counted = dict(steps())
        written = final_brains(folder, counted)
        callbacks.dispatch(TrainingEnd(folder, counted, written, callbacks.reason, error))
        if error is None:
            callbacks.raise_failure()


def final_brains(folder: Path, behaviors: Iterable[str]) -> dict[str, Path]:
    """A run's final models by behavior; `<behavior>-place<k>` where each slot of a group has its own."""
    found: dict[str, Path] = {}
    for name in behaviors:
        whole = folder / f"{name}.onnx"
        paths = [whole] if whole.exists() else folder.glob(f"{glob.escape(name)}-place*.onnx")
        # One that the run has not written may lead anywhere.
        found |= {path.stem: path for path in sorted(paths) if is_file_within(path, folder)}
    return found


class CallbackWriter(StatsWriter):
    """Dispatches every summary, and the metrics of evaluations, to the callbacks."""

    def __init__(self, callbacks: CallbackDispatcher) -> None:
        self.callbacks = callbacks

    def write_stats(self, category: str, values: Mapping[str, StatsSummary], step: int) -> None:
        """Dispatch a summary."""
        metrics = {key: summary.aggregated_value for key, summary in values.items() if key not in HIDDEN_KEYS}
        self.callbacks.dispatch(SummaryDue(category, step, metrics))
