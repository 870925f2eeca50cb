"""Curricula that could never be gone through: said before a run begins."""

from __future__ import annotations

from collections.abc import Iterator

from ..settings.errors import Problem
from ..settings.nearest import nearest
from ..settings.options import RunOptions
from ..settings.problems import dotted
from ..settings.source import Path
from .settings import CompletionCriteriaSettings, MeasureType

Fault = tuple[tuple[str, ...], str]
"""A key of the criteria, and what is wrong with it."""


def hopeless_lessons(options: RunOptions) -> list[Problem]:
    """Every lesson that would never end, and every curriculum without a lesson."""
    found: list[tuple[Path, str]] = []
    for name, parameter in (options.environment_parameters or {}).items():
        lessons = parameter.curriculum
        place: Path = ("environment_parameters", name, "curriculum")
        if not lessons:
            found.append((place, "it has no lesson: give one, or a number or a sampler in its place"))
        for number, lesson in enumerate(lessons[:-1]):
            criteria = lesson.completion_criteria
            if criteria is not None:
                here = (*place, number, "completion_criteria")
                found += [((*here, *key), message) for key, message in _faults(options, criteria)]
    return [Problem(dotted(path), message, options.place(path)) for path, message in found]


def _faults(options: RunOptions, criteria: CompletionCriteriaSettings) -> Iterator[Fault]:
    unknown = _unknown_behavior(options, criteria.behavior)
    if unknown is not None:
        yield ("behavior",), unknown
    settings = options.behaviors.get(criteria.behavior, options.default_settings)
    if criteria.measure is MeasureType.ELO and settings is not None and settings.self_play is None:
        yield (
            ("measure",),
            f"found Elo, the rating of self-play; {criteria.behavior} has no section self_play, and so no "
            "rating: the lesson would never end. Measure reward or progress",
        )
    if criteria.measure is MeasureType.PROGRESS and settings is not None and settings.endless:
        yield (
            ("measure",),
            f"found progress, the part of max_steps that is done; {criteria.behavior}, with max_steps -1, is "
            "trained until it is stopped: the lesson would never end. Measure reward",
        )
    elif criteria.measure is MeasureType.PROGRESS and criteria.threshold >= 1:
        yield (
            ("threshold",),
            f"found {criteria.threshold}; the measure, the part of max_steps that is done, must be above it, "
            "which is when the training is over: the lessons behind it would never begin. Give less than 1",
        )


def _unknown_behavior(options: RunOptions, name: str) -> str | None:
    """What is wrong with the name of a behaviour; None where it is listed, or may yet appear."""
    if name in options.behaviors:
        return None
    plain = name.partition("?")[0]
    if plain != name:
        return f"found {name}; a behavior's teams are measured together: write {plain}"
    if options.default_settings is not None or options.file is None:
        return None
    close = nearest(name, options.behaviors)
    hint = f" Did you mean {close}?" if close else ""
    listed = ", ".join(options.behaviors) or "none"
    where = f"is no behavior of this file (listed: {listed})"
    return f"found {name}, which {where}: the lesson would never end.{hint}"
