"""The console output of a run: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

from .console import ConsoleWriter
from .progress import BehaviorProgress
from .summary import StatsSummary
from .writer import StatsPropertyType, StatsWriter

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_STARTING = "starting"
_ECHO = 2
"""Columns left free on the right for the ^C that the terminal echoes when the user stops the run. On its own
line it would push the display up and leave a piece of it on the screen."""


class Display(StatsWriter):
    """A writer that is also notified of progress between summaries. By default it shows nothing."""

    @property
    def terminal(self) -> Console | None:
        """The terminal through which log lines must be printed while the display is live; else None."""
        return None

    def write_between(self, category: str, values: Mapping[str, StatsSummary], step: int) -> None:
        """Show nothing: an evaluation logs its own line."""

    def start(self) -> None:
        """Start the display."""

    def progress(self, behavior: str, step: int) -> None:
        """The behavior is at `step`; cheap enough for every tick."""

    def checkpoint(self, behavior: str, step: int) -> None:
        """A checkpoint was saved at `step`."""

    def lesson(self, parameter: str, name: str, number: int, lessons: int) -> None:
        """An environment parameter is in the lesson `name`, the `number`th of `lessons`."""

    def status(self, text: str) -> None:
        """Show what the run is doing, in a few words."""


class PlainDisplay(ConsoleWriter, Display):
    """The lines of ML-Agents' console, one per summary."""


class SilentDisplay(Display):
    """Shows nothing: the summaries are written elsewhere."""

    def write_stats(self, category: str, values: Mapping[str, StatsSummary], step: int) -> None:
        """Show nothing."""


class LiveDisplay(Display):
    """Steps, rate, reward curve, time left and checkpoints of every behavior, redrawn in place.

    A thread of rich redraws it `per_second` times a second; trainers only set a number.
    The final display stays on the terminal when the run is over.
    """

    def __init__(
        self,
        title: str,
        console: Console | None = None,
        per_second: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        from rich.console import Console
        from rich.live import Live

        self.title = title
        self.console: Console = console or Console()
        self.behaviors: dict[str, BehaviorProgress] = {}
        self.lessons: dict[str, str] = {}
        """The lesson of each environment parameter that has several."""
        self.doing = _STARTING
        self._clock = clock
        self._start = clock()
        self._lock = Lock()
        self._live = Live(
            console=self.console,
            get_renderable=self.render,
            refresh_per_second=per_second,
            vertical_overflow="ellipsis",
        )

    @property
    def terminal(self) -> Console:
        """The terminal of the display."""
        return self.console

    def start(self) -> None:
        """Draw the display and keep redrawing it."""
        self._live.start(refresh=True)

    def close(self) -> None:
        """Draw a last time, unless the terminal is gone: that must not end a run that is being saved."""
        with suppress(OSError):
            self._live.stop()

    def progress(self, behavior: str, step: int) -> None:
        """The behavior is at `step`."""
        self._of(behavior).step = step
        if self.doing == _STARTING:
            self.doing = "training"

    def checkpoint(self, behavior: str, step: int) -> None:
        """A checkpoint was saved at `step`."""
        self._of(behavior).checkpoint = step

    def lesson(self, parameter: str, name: str, number: int, lessons: int) -> None:
        """Show the lesson of a parameter on its own line."""
        with self._lock:
            self.lessons[parameter] = f"{name} ({number}/{lessons})"

    def status(self, text: str) -> None:
        """Show `text` at the bottom of the display."""
        self.doing = text

    def write_stats(self, category: str, values: Mapping[str, StatsSummary], step: int) -> None:
        """Update the display with a summary."""
        behavior = self._of(category)
        with self._lock:
            behavior.update(values)
            behavior.step = max(behavior.step, step)

    def add_property(self, category: str, property_type: StatsPropertyType, value: Any) -> None:
        """Set the behavior's maximum number of steps."""
        steps = None
        if property_type is StatsPropertyType.HYPERPARAMETERS:
            steps = value.get("max_steps")
        elif property_type is StatsPropertyType.MAX_STEPS:
            steps = value
        if steps is not None:
            self._of(category).max_steps = int(steps) if int(steps) >= 0 else None

    def _of(self, behavior: str) -> BehaviorProgress:
        found = self.behaviors.get(behavior)
        if found is None:
            with self._lock:
                found = self.behaviors.setdefault(behavior, BehaviorProgress(behavior))
        return found

    def render(self) -> RenderableType:
        """The display in its current state."""
        from .rich_display import draw

        now = self._clock()
        with self._lock:
            for behavior in self.behaviors.values():
                behavior.sample(now)
            width, height = self.console.size
            width = max(width - _ECHO, 1)
            behaviors = list(self.behaviors.values())
            return draw(self.title, self.doing, behaviors, now - self._start, width, height, self.lessons)


def make_display(title: str, plain: bool = False, silent: bool = False) -> Display:
    """A live display if standard output is a terminal that can show one, else plain lines.

    Args:
        title: the run's name.
        plain: always plain lines (ML-Agents' exact output).
        silent: no summaries at all.
    """
    if silent:
        return SilentDisplay()
    from rich.console import Console

    console = Console()
    terminal = console.file.isatty()  # FORCE_COLOR, which notebooks and CI set, makes none of a pipe
    capable = terminal and not console.is_dumb_terminal and "utf" in console.encoding.lower()
    return PlainDisplay() if plain or not capable else LiveDisplay(title, console)
