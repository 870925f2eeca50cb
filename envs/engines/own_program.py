"""Lanista's own modules as processes that import nothing from the current folder: it may be anybody's."""

from __future__ import annotations

import sys

_WITHOUT_FOLDER = (
    "import sys; sys.path[:] = [place for place in sys.path if place]; import runpy; "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)
"""What `-P` is for `-m`, of a Python that has no such flag."""


def own_program(module: str, *arguments: str, version: tuple[int, int] = sys.version_info[:2]) -> list[str]:
    """The command that runs a module of Lanista, as `python -m` would, with this Python."""
    own = ["-P", "-m", module] if version >= (3, 11) else ["-c", _WITHOUT_FOLDER, module]
    return [sys.executable, *own, *arguments]
