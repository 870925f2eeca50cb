"""The line that installs an extra of the Lanista that runs, for messages."""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[2]


def install_command(extra: str = "") -> str:
    """A line for bash, PowerShell and cmd, which all take double quotes, that installs Lanista with an extra.

    No index is needed for it. A clone, whose root is the package, is installed from its folder. Any other
    Lanista is installed already: pip finds it by its name, keeps it, and adds what the extra requires.
    """
    wanted = f"[{extra}]" if extra else ""
    if not (_PACKAGE / "setup.py").is_file():
        return f'pip install "lanista{wanted}"'
    folder = "." if os.path.samefile(_PACKAGE, os.curdir) else _PACKAGE
    return f'pip install -e "{folder}{wanted}"'
