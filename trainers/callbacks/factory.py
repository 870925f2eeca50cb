"""Makes the callbacks of a run from the names in the YAML."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ..settings.errors import Problem, TrainerConfigError
from ..settings.models.outputs import READY, choice
from ..settings.options import RunOptions
from ..settings.validation import idle_callback
from ..utils.errors import TrainerError
from ..utils.plugins import CALLBACKS, USER_ERRORS, PluginError, cause, load, plugins
from .base import Callback
from .dispatcher import named
from .keep_best import KeepBest
from .stop_at_reward import StopAtReward
from .video import WriteVideo


def make_callbacks(options: RunOptions, more: Sequence[Callback] = ()) -> dict[str, Callback]:
    """The callbacks that the options name, those that settings imply, and `more`, in this order.

    Args:
        options: of the run.
        more: callbacks from a script.

    Raises:
        TrainerConfigError: one cannot be found or made; the message names it and the cause.
        TrainerError: something in `more` is not a Callback, or could do nothing.
    """
    made = []
    for index, entry in enumerate(options.callbacks):
        name, arguments = choice(entry)
        try:
            made.append((name, _made(name, arguments)))
            _require_effect(options, made[-1][1])
        except TrainerError as error:
            place = options.place(("callbacks", index))
            raise TrainerConfigError([Problem(("callbacks", index), str(error), place)]) from error
    made += _of_settings(options)
    for callback in more:
        if not isinstance(callback, Callback):
            raise TrainerError(
                f"found {callback!r} among the callbacks; expected an object of a class that is derived from "
                "lanista.trainers.callbacks.Callback"
            )
        _require_effect(options, callback)
        made.append((type(callback).__name__, callback))
    return named(made)


def _require_effect(options: RunOptions, callback: Callback) -> None:
    """Refuse a built-in callback that would wait for what never comes.

    Raises:
        TrainerError: it watches a behavior that cannot appear, or evaluations where there are none.
    """
    if type(callback) not in (KeepBest, StopAtReward, WriteVideo):  # one of a user's may do more
        return
    assert isinstance(callback, (KeepBest, StopAtReward, WriteVideo))
    needs_tests = callback.evaluation if isinstance(callback, StopAtReward) else callback.wants_frames
    if why := idle_callback(options, type(callback).__name__, callback.behavior, needs_tests):
        raise TrainerError(why)


def _of_settings(options: RunOptions) -> list[tuple[str, Callback]]:
    """The callbacks that `test_video` implies."""
    filmed = [name for name, settings in options.behaviors.items() if settings.test_video]
    made: list[tuple[str, Callback]] = [("test_video", WriteVideo(behavior=name)) for name in filmed]
    if options.default_settings is not None and options.default_settings.test_video:
        made.append(("test_video", WriteVideo(without=list(options.behaviors))))
    return made


def _made(name: str, arguments: Mapping[str, Any]) -> Callback:
    """The callback of this name.

    Raises:
        TrainerError: it cannot be found or made.
    """
    kind = _found(name)
    try:
        inspect.signature(kind).bind(**arguments)
    except TypeError as error:
        raise TrainerError(
            f"{name} takes other arguments: {error}. It is called as {kind.__name__}{_signature(kind)}"
        ) from error
    try:
        callback = kind(**arguments)
    except TrainerError as error:
        raise TrainerError(f"{name}: {error}") from error
    except USER_ERRORS as error:
        raise TrainerError(f"{name} cannot be made: {cause(error)}") from error
    if not isinstance(callback, Callback):
        raise TrainerError(
            f"{name} gave {callback!r}; expected an object of a class that is derived from "
            "lanista.trainers.callbacks.Callback"
        )
    return callback


def _signature(kind: Callable[..., Any]) -> str:
    return str(inspect.signature(kind)).partition(" -> ")[0]


def _found(name: str) -> Any:
    """The class, or another callable that makes the callback."""
    if ":" not in name and name not in READY:
        try:
            return load(plugins(CALLBACKS)[name])
        except PluginError as error:
            raise TrainerError(str(error)) from error
    module, _, attribute = READY.get(name, name).partition(":")
    here = str(Path.cwd())
    if here not in sys.path:  # where a console script runs, Python does not look
        sys.path.append(here)
    try:
        return getattr(import_module(module), attribute)
    except USER_ERRORS as error:
        raise TrainerError(
            f"{name} cannot be imported: {cause(error)}. It is named as package.module:Class; modules are "
            f"looked for in {here} and among the installed packages"
        ) from error
