"""Checks and process settings before torch is imported: demonstration files, and malloc's thresholds."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator

from ...envs.demonstrations.demonstration import demonstration_files
from ...envs.errors import DemonstrationError
from ..settings.base import found
from ..settings.errors import Path, Problem, TrainerConfigError
from ..settings.models.rewards import GAILSettings
from ..settings.options import RunOptions

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST = 64 * 2**20
"""Bytes; mallopt limits the second to half the size of a heap segment."""


def set_malloc_thresholds() -> None:
    """Let the C library reuse freed memory for arrays of megabytes.

    By default glibc maps each of them separately and unmaps it when it is freed, and the kernel clears every
    page each time: a tenth of the time of an update of a team. Other C libraries are not changed.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # not glibc
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGEST)
    mallopt(_M_TRIM_THRESHOLD, 8 * _LARGEST)


def check_demonstrations(options: RunOptions) -> None:
    """Refuse a run whose listed behaviors are to learn from files that do not exist.

    The contents are checked when agents of the behavior appear.

    Raises:
        TrainerConfigError: names each such key.
    """
    problems = []
    for path, demo in _demonstrations(options):
        try:
            demonstration_files(demo)
        except DemonstrationError as error:
            problems.append(Problem(path, f"found {found(demo)}. {error}", options.place(path)))
    if problems:
        raise TrainerConfigError(problems)


def _demonstrations(options: RunOptions) -> Iterator[tuple[Path, str]]:
    """Every key that names a demonstration, and its value."""
    for name, behavior in options.behaviors.items():
        for signal, settings in behavior.reward_signals.items():
            if isinstance(settings, GAILSettings):
                yield ("behaviors", name, "reward_signals", signal, "demo_path"), settings.demo_path
        if options.checkpoint_settings.inference:
            continue
        for key in ("behavioral_cloning", "demonstrations"):
            if (section := getattr(behavior, key)) is not None:
                yield ("behaviors", name, key, "demo_path"), section.demo_path
