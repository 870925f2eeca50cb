"""What a configuration means to ML-Agents 1.1.0, where that is not what it means here.

Each rule looks at one thing in what was written or in what it means, and is silent about files that it does
not concern. Trainers and sections to come bring rules of their own: a rule is a function in one of the lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..settings.options import RunOptions
from ..settings.problems import dotted
from ..settings.source import Path, Source
from .meaning import MEANING_RULES
from .written import WRITTEN_RULES, Remark


@dataclass(frozen=True)
class Difference:
    """One thing about a configuration that who comes from ML-Agents should know."""

    path: str
    """Where in the tree, such as `behaviors.Ball.hyperparameters.epsilon`."""
    message: str
    place: str = ""
    """Where it was written: `ball.yaml, line 12`."""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.place, self.path, self.message) if part)


def explain(source: Source, options: RunOptions | None) -> list[Difference]:
    """Where ML-Agents and Lanista differ about this configuration, and quirks of ML-Agents that it meets.

    Args:
        source: what is written; `compose` makes one of several files.
        options: what that means; None where something is wrong with it.

    Returns:
        In the order of the file.
    """
    remarks = [remark for rule in WRITTEN_RULES for remark in rule(source)]
    if options is not None:
        remarks += [remark for rule in MEANING_RULES for remark in rule(source, options)]
    order = {path: number for number, path in enumerate(_paths(source.data, ()))}
    remarks.sort(key=lambda remark: _position(remark, order))
    return [Difference(dotted(path), message, _place(source, path)) for path, message in remarks]


def _place(source: Source, path: Path) -> str:
    """The line of what is written; only the file of what is not, not even the section that would hold it."""
    return source.place(path) if path[:1] in source.places else source.name


def _paths(data: object, path: Path) -> Iterator[Path]:
    yield path
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _paths(value, (*path, str(key)))
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield from _paths(value, (*path, number))


def _position(remark: Remark, order: dict[Path, int]) -> int:
    """That of the path, or of what would hold it; what is written nowhere comes last."""
    path = remark[0]
    for length in range(len(path), 0, -1):
        if path[:length] in order:
            return order[path[:length]]
    return len(order)
