"""How far the playing is: a line of the terminal that is drawn anew, elsewhere a message now and then."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from .player import Player

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

logger = logging.getLogger(__name__)

REDRAWN = 5
"""Times per second."""
BETWEEN = 10.0
"""Seconds between two messages where there is no terminal."""


def terminal() -> Console | None:
    """The terminal that both output streams write to; None if one of them is a file or a pipe."""
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        return None
    from rich.console import Console

    console = Console(file=sys.stderr)
    return console if console.is_terminal and not console.is_dumb_terminal else None


class Progress:
    """Tells of a player's progress while the context is open."""

    def __init__(
        self, player: Player, console: Console | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`console`: the terminal to draw on; None for messages."""
        self.player = player
        self._clock = clock
        self._begun = self._reported_at = clock()
        self._live: Live | None = None
        if console is not None:
            from rich.live import Live

            self._live = Live(
                console=console, get_renderable=self._line, transient=True, refresh_per_second=REDRAWN
            )

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def step(self) -> None:
        """The environment was reset, or has taken a step."""
        if self.player.steps <= 1:  # what comes before, such as opening the page of --watch, is no playing
            self._begun = self._reported_at = self._clock()
        if self._live is None and self._clock() - self._reported_at >= BETWEEN:
            self._reported_at = self._clock()
            logger.info("%s", self.text())

    def text(self) -> str:
        """Episodes, their mean reward, steps and speed."""
        player, seconds = self.player, self._clock() - self._begun
        seats = player.counter.seats
        fewest = min((len(seat.last_rewards) for seat in seats.values()), default=0)
        means = {
            name: sum(returns) / len(returns)
            for scores in player.counter.scores.values()
            for name, seat in scores.seats.items()
            if (returns := scores.returns_of(seat))
        }
        if len(seats) > 1:
            shown = ", ".join(f"{name} {mean:.3f}" for name, mean in sorted(means.items()))
            each, mean = " of each", f"mean rewards {shown}, " if means else ""
        else:
            each, mean = "", "".join(f"mean reward {mean:.3f}, " for mean in means.values())
        speed = f", {player.steps / seconds:,.0f}/s" if seconds > 1 else ""
        return f"{fewest} of {player.episodes} episodes{each}, {mean}step {player.steps:,}{speed}"

    def _line(self) -> Text:
        from rich.text import Text

        return Text(self.text(), no_wrap=True, overflow="ellipsis")
