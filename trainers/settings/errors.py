"""Configuration errors, and warnings about configurations that are accepted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

Path = tuple[str | int, ...]
"""Where a value is in the tree: the keys that lead to it, and the numbers of entries of lists."""


def dotted(path: Path) -> str:
    """A path as `--set` takes it: parts that hold a dot are quoted."""
    return ".".join(f'"{part}"' if "." in str(part) else str(part) for part in path)


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in a configuration."""

    path: Path
    """Of the key; empty for the whole."""
    message: str
    """What was found, what is allowed, and what to do."""
    place: str = ""
    """Where it was written: `ball.yaml, line 12`, or the flag of the command line."""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.place, self.key, self.message) if part)

    @property
    def key(self) -> str:
        """The path, such as `behaviors.Ball.hyperparameters.batch_size`."""
        return dotted(self.path)

    def within(self, section: Path) -> Problem:
        """The same, if its path starts at this section."""
        return replace(self, path=(*section, *self.path))

    def located(self, place: Callable[[Path], str]) -> Problem:
        """With the place of its path."""
        return replace(self, place=place(self.path))


MOST_PROBLEMS = 100
"""That one message lists."""


class TrainerConfigError(Exception):
    """The configuration cannot be used; lists everything that is wrong with it, one problem per line."""

    def __init__(self, problems: str | Sequence[Problem]) -> None:
        self.problems = [Problem((), problems)] if isinstance(problems, str) else list(problems)
        lines = [str(problem) for problem in self.problems]
        if len(lines) > 1:
            rest = len(lines) - MOST_PROBLEMS
            more = [f"  ... and {rest} more"] if rest > 0 else []
            shown = [f"  {line}" for line in lines[:MOST_PROBLEMS]]
            lines = [f"{len(lines)} problems in the configuration:", *shown, *more]
        super().__init__("\n".join(lines))


logger = logging.getLogger(__name__)


class Notes:
    """Collects warnings while a configuration is read, each once, in order.

    Args:
        places: takes a key and its value, and tells where that was written, as messages name it.
    """

    def __init__(self, places: Callable[[str, Any], list[str]] = lambda key, value: []) -> None:
        self.places = places
        self.texts: dict[str, None] = {}

    def add(self, text: str) -> None:
        """Keep `text`, once."""
        self.texts[text] = None

    def report(self) -> None:
        """Log all texts as warnings, and clear them."""
        for text in self.texts:
            logger.warning("%s", text)
        self.texts.clear()


def note(info: Any, text: str, value: Any = None, path: Path = ()) -> None:
    """Add a warning to the validation's `Notes` (its context), or log it at once when there are none.

    Args:
        info: a pydantic ValidationInfo, or None outside a validation.
        text: the warning.
        value: of the key that it is about, as it was written, by which its places are found.
        path: of the key, in place of the field that is validated.
    """
    name = dotted(path) or getattr(info, "field_name", None) or ""
    context = getattr(info, "context", None)
    if isinstance(context, Notes):
        places = context.places(name, value) if name and value is not None else []
        for place in places or [name]:
            context.add(f"{place}: {text}" if place else text)
    else:
        logger.warning("%s", f"{name}: {text}" if name else text)
