"""Lanista's own modules as processes that import nothing from the current folder: it may be anybody's."""

from __future__ import annotations

import sys

_WITHOUT_FOLDER = "import sys; sys.path[:] = [place for place in sys.path if place]; "
"""What the flag `-P` does, which Python 3.10 does not have."""
_MODULE = "import runpy; runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"


def own_program(module: str, *arguments: str, version: tuple[int, int] = sys.version_info[:2]) -> list[str]:
    """The command that runs a module of Lanista, as `python -m` would, with this Python."""
    if version >= (3, 11):
        return [sys.executable, "-P", "-m", module, *arguments]
    return [*own_code(_MODULE), module, *arguments]


def own_code(code: str) -> list[str]:
    """The command that runs statements, as `python -c` would, with this Python."""
    return [sys.executable, "-c", f"{_WITHOUT_FOLDER}{code}"]
