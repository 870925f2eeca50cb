"""A run's replay beside its checkpoint."""

from __future__ import annotations

import logging
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from .file import ReplayFileError, SavedReplay, write_replay
from .layout import ReplayLayout
from .memory import size_text
from .replay import Replay

logger = logging.getLogger(__name__)

FILE = "last_replay_buffer.replay"
"""In the behaviour's folder. The one of the newest checkpoint: older ones have none."""

_SETTINGS = {"longest": "time horizon"}
"""What users call those entries of a layout that have another name here."""

NOT_LOADED = "Replay buffer was unable to load, starting from scratch."
"""ML-Agents' own line."""


def save_replay(name: str, folder: Path, replay: Replay, step: int) -> bool:
    """Write the replay of the behaviour `name` at `step`; False, after a warning, where that fails."""
    path = folder / FILE
    about = {"step": step, "layout": _described(replay.layout), "state": replay.state()}
    try:
        write_replay(path, about, replay.kept())
    except OSError as error:
        logger.warning(
            "%s: the replay of step %d could not be saved (%s); the checkpoint is, and training goes on. %s "
            "is as it was. It takes up to %s, for a moment twice that.",
            *(name, step, error, path, size_text(replay.layout.nbytes())),
        )
        return False
    return True


def load_replay(name: str, folder: Path, new: Replay, step: int) -> Replay | None:
    """The saved replay of the behaviour `name`, for a run that goes on at `step`.

    Args:
        name: of the behaviour.
        folder: of the behaviour.
        new: an empty replay that would be used else. Its layout may still be wrong about which pictures come
            as bytes.
        step: of the checkpoint.

    Returns:
        None, after a warning, where there is none or it cannot be used.
    """
    path = folder / FILE
    held = 0
    try:
        saved = SavedReplay(path)
        state = saved.about["state"]
        held = int(state["head"]) - int(state["tail"])
        loaded = _like(new, saved.about["layout"])
        loaded.restore(state)
        saved.fill(loaded.kept())
        loaded.restored()
    except FileNotFoundError:
        logger.warning("%s %s: there is no %s.", NOT_LOADED, name, path)
        return None
    except (ReplayFileError, KeyError, TypeError, ValueError, MemoryError) as error:
        dropped = f"Its {held:,} steps are dropped" if held else "What it held is dropped"
        logger.warning("%s %s: %s: %s. %s.", NOT_LOADED, name, path, error, dropped)
        return None
    of = int(saved.about["step"])
    behind = "" if of == step else f" It is of step {of:,}, the checkpoint of step {step:,}."
    logger.info("%s: the replay holds %s steps of %s.%s", name, f"{held:,}", path, behind)
    return loaded


def _like(new: Replay, described: dict[str, Any]) -> Replay:
    """An empty replay as the saved one was.

    Raises:
        ReplayFileError: it does not fit the behaviour, or its settings.
    """
    layout = replace(new.layout, dtypes=tuple(np.dtype(name) for name in described["dtypes"]))
    wanted = _described(layout)
    if max(layout.stacks, default=1) == 1:
        del wanted["longest"]  # trajectories of any length are kept alike
    for key, value in wanted.items():
        if described.get(key) != value:
            known = _SETTINGS.get(key, key.replace("_", " "))
            raise ReplayFileError(f"its {known} is {described.get(key)}, with the settings of now {value}")
    return new if layout == new.layout else Replay(layout, new.alpha)


def _described(layout: ReplayLayout) -> dict[str, Any]:
    """A layout as JSON has it."""
    told = asdict(layout)
    told["dtypes"] = [np.dtype(dtype).name for dtype in layout.dtypes]
    told["extra"] = [[e.name, list(e.shape), np.dtype(e.dtype).name] for e in layout.extra]
    return {key: _listed(value) for key, value in told.items()}


def _listed(value: Any) -> Any:
    return [_listed(one) for one in value] if isinstance(value, tuple) else value
