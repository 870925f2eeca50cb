"""Where Unity logs if it is told nothing else. Source: Unity's manual, "Log files reference"."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..utils.regular_files import read_text

_MOST_BYTES = 4096
"""Of the file with the names of company and product."""


def editor_log(platform: str = sys.platform) -> Path:
    """The log of the Unity Editor on this machine, which holds what its Console shows."""
    if platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or _home() / "AppData/Local") / "Unity/Editor/Editor.log"
    return _home() / ("Library/Logs/Unity" if platform == "darwin" else ".config/unity3d") / "Editor.log"


def player_log(program: Path, platform: str = sys.platform) -> Path | None:
    """The log of an executable that gets no `-logFile`; None if it does not tell its company and product.

    All executables of one product write to one file.
    """
    if platform == "darwin":  # Game.app/Contents/MacOS/Game
        data = program.parents[1] / "Resources/Data" if len(program.parents) > 1 else program.parent
    else:
        data = program.with_name(f"{program.stem}_Data")
    try:
        names = [line.strip() for line in read_text(data / "app.info", _MOST_BYTES).splitlines()[:2]]
    except (OSError, ValueError):
        return None
    if len(names) < 2 or not all(names):
        return None
    places = {"darwin": "Library/Logs", "win32": "AppData/LocalLow"}
    return _home().joinpath(places.get(platform, ".config/unity3d"), *names, "Player.log")


def _home() -> Path:
    """The user's folder; where there is none, a place that is not there."""
    return Path(os.path.expanduser("~"))
