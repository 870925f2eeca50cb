"""A behaviour's name becomes the name of a folder and of files."""

from __future__ import annotations

import os
import re

from .errors import TrainerError

TAKEN = frozenset({"run_logs", "metadata", "configuration.yaml"})
"""Names that a run's folder and its status file have already."""
LONGEST = 200
"""Bytes; names of files have at most 255, and steps and endings are added."""

_NOWHERE = re.compile(r"[/\x00-\x1f\x7f]")
_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*\\]|[. ]$')
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)


def require_folder_name(behavior: str, windows: bool = os.name == "nt") -> None:
    """Refuse a behaviour after which no folder can be named.

    Engines allow any text. Nothing may be written outside the run's folder, and a slash would make folders
    inside folders (ML-Agents fails at the first checkpoint of such a behaviour). What only Windows cannot
    have is refused there alone: elsewhere such runs have always worked.

    Raises:
        TrainerError: says what is wrong with the name.
    """
    cause = _cause(behavior, windows)
    if cause:
        raise TrainerError(
            f"The behavior {behavior!r} cannot be trained: its name is that of its folder in the results, "
            f"and {cause}. Change the Behavior Name in the scene (Behavior Parameters) and in the "
            "configuration."
        )


def _cause(name: str, windows: bool) -> str:
    """What is wrong with the name; empty for nothing."""
    if not name.strip() or name in (".", ".."):
        return "a folder cannot be called so"
    if name in TAKEN:
        return "the run itself has a file or an entry of that name"
    if len(name.encode("utf-8", "surrogatepass")) > LONGEST:
        return f"it is longer than {LONGEST} bytes"
    found = _NOWHERE.search(name) or (_NOT_ON_WINDOWS.search(name) if windows else None)
    if found:
        return f"a folder's name cannot hold {found[0]!r} there"
    if windows and _DEVICES.fullmatch(name):
        return "Windows keeps that name for a device"
    return ""
