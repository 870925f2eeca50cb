"""A game whose scripts print errors, as a listener of an engine's log would report them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lanista.envs.engines.engine_errors import EngineError, EngineErrors
from line_game import LineGame

Prints = Mapping[int, Sequence[tuple[str, str, int]]]
"""Sentence, place and number of the errors that are printed, by steps; 0: at the launch, -1: at the end."""
THROWN = ("NullReferenceException: Object reference not set", "Assets/MyAgent.cs:42", 3)
FAILED = ("Assertion failed", "Assets/Arena.cs:7", 1)


IS_WARNING = False
"""Whether what is printed is a warning."""


class PrintingGame(LineGame):
    """A `LineGame` that prints errors in some of its steps, counted from 1.

    Args:
        number: Its environment's.
        prints: What it prints.
        errors: Where the listener puts them.
        rules: Arguments of `LineGame`.
    """

    def __init__(self, number: int, prints: Prints, errors: EngineErrors, **rules: object) -> None:
        super().__init__(**rules)  # type: ignore[arg-type]
        self.number, self.prints, self.errors = number, prints, errors
        self._print(0)

    def step(self) -> None:
        """A step of the game, in which it may print."""
        self._print(self.steps + 1)
        super().step()

    def close(self) -> None:
        """The game's end, in which it may print."""
        self._print(-1)
        super().close()

    def _print(self, step: int) -> None:
        log = Path("results", "r", "run_logs", f"Player-{self.number}.log").absolute()
        for text, place, times in self.prints.get(step, ()):
            error = EngineError("Unity", f"environment {self.number}", text, place, log, IS_WARNING)
            self.errors.add(error, times)
