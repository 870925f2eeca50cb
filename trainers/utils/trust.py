"""The one answer to whether what a saved file names may be started or imported.

It may if it is part of Lanista, if a run of this user did so before (`own_runs`), or if the user says so. The
command line, and the configurations that it names, are the user's own word: they are never asked about.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from .own_runs import is_own
from .text import harmless, typed
from .trusted_names import Named

FLAG = "--trust-run"


class Trust:
    """What the user trusts of the files that are opened."""

    def __init__(
        self, granted: bool = False, *, how: str = FLAG, ask: Callable[[str], bool] | None = None
    ) -> None:
        """Args:
        granted: everything.
        how: what to pass in order to trust everything.
        ask: asks the user a question; None where there is nobody to ask.
        """
        self.granted = granted
        self._how = how
        self._ask = ask
        self._permitted: set[tuple[str, ...]] = set()

    @classmethod
    def of_command(cls, granted: bool) -> Trust:
        """That of a command: `granted` by its flag; on a terminal the user is asked."""
        terminal = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
        return cls(granted, ask=_asked if terminal else None)

    def refusal(self, named: Named, source: Path | None = None) -> str:
        """Why what a file names must be neither started nor imported, and what to do; empty if it may be.

        Args:
            named: all of that kind in the file.
            source: the file, in the folder of a run or of one of its behaviors.
        """
        wanted = named.foreign
        new = [each for each in wanted.each() if each not in self._permitted]
        if self.granted or not new or (source is not None and _is_of_own_run(source, wanted)):
            return ""
        found = f"{'it' if source is None else harmless(str(source))} names {_things(wanted)}"
        unknown = "Nothing shows that it is from a run that you trained in the current folder"
        if self._ask is not None and self._ask(f"{found}\n{unknown}. Do you trust it?"):
            self._permitted.update(new)
            return ""
        other = ", or name the environment yourself with --env" if wanted.environment else ""
        return f"{found}\n{unknown}, so Lanista refuses. If you trust it, pass {self._how}{other}."


def _things(named: Named) -> str:
    """What would be done, the whole line."""
    parts = []
    if named.environment:
        line = typed([harmless(word) for word in named.environment])
        parts.append(f"an environment, which would be started:\n  {line}")
    if named.imports:
        parts.append(f"code, which would be imported:\n  {', '.join(map(harmless, named.imports))}")
    return "\nand ".join(parts)


def _is_of_own_run(source: Path, named: Named) -> bool:
    folder = Path(os.path.abspath(source)).parent
    return any(is_own(run, named) for run in (folder, folder.parent))


def _asked(question: str) -> bool:
    """Whether the user says yes on the terminal; Enter alone is no."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
