"""The curriculum: advances the lessons of environment parameters as agents learn."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .checkpoints.status import LESSON, SMOOTHED, TrainingStatus, TrainingStatusError
from .settings.models.environment_parameters import (
    CompletionCriteriaSettings,
    EnvironmentParameters,
    Lesson,
    MeasureType,
    SamplerSettings,
    with_seeds,
)

logger = logging.getLogger(__name__)

_OLD_WEIGHT = 0.25


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """How far the training of a behavior has come."""

    step: int
    """The trainer steps so far."""
    max_steps: int
    returns: Sequence[float] = ()
    """Returns of the last episodes: of groups where these earn rewards, else of agents."""
    elo: float | None = None
    """The rating of self-play; None without self-play."""
    by_groups: bool = False
    """The returns are those of groups."""


@dataclass(frozen=True, slots=True)
class LessonChange:
    """Lessons that have started."""

    parameters: tuple[str, ...]
    """The parameters whose next lesson has started."""
    reset: bool
    """Whether the environments are to be reset for one of these lessons."""


ProgressOf = Callable[[str], TrainingProgress | None]
"""Returns the progress of the behavior with a name; None while no environment has shown the behavior."""


class Curriculum:
    """The current lesson of every environment parameter.

    A parameter that is a number or a sampler has one lesson, which never ends.
    """

    def __init__(self, parameters: EnvironmentParameters | None = None, run_seed: int = 0) -> None:
        """Start with the first lesson of each parameter.

        Args:
            parameters: from the run's settings.
            run_seed: seeds the samplers that have no seed of their own.
        """
        seeded = with_seeds(parameters or {}, run_seed)
        self.lessons: dict[str, list[Lesson]] = {
            name: parameter.curriculum for name, parameter in seeded.items() if parameter.curriculum
        }
        self.numbers = dict.fromkeys(self.lessons, 0)
        """The index of each parameter's lesson, from 0."""
        self.smoothed = dict.fromkeys(self.lessons, 0.0)
        """The smoothed reward of each parameter's criteria; it carries over from lesson to lesson."""
        self.has_next = any(self.pending())
        """Whether some parameter has another lesson to come."""
        self._status: TrainingStatus | None = None
        self._warned: set[str] = set()
        """Parameters whose lesson waits for group rewards, which has been said."""

    def lesson(self, parameter: str) -> Lesson:
        """The current lesson of a parameter."""
        return self.lessons[parameter][self.numbers[parameter]]

    def samplers(self) -> dict[str, SamplerSettings]:
        """The current values of the environment parameters, by name."""
        return {name: self.lesson(name).value for name in self.lessons}

    def line(self, parameter: str) -> str:
        """ML-Agents' console line about a parameter's lesson."""
        lesson = self.lesson(parameter)
        value = lesson.value.description()
        return f"Parameter '{parameter}' is in lesson '{lesson.name}' and has value '{value}'."

    def returns_kept(self, behavior: str) -> int:
        """How many returns of a behavior's last episodes the lessons' criteria need; at least 1."""
        lengths = (
            lesson.completion_criteria.min_lesson_length
            for lessons in self.lessons.values()
            for lesson in lessons
            if lesson.completion_criteria is not None and lesson.completion_criteria.behavior == behavior
        )
        return max(lengths, default=1) or 1

    def pending(self) -> Iterator[tuple[str, CompletionCriteriaSettings]]:
        """The parameters that have another lesson to come, and the completion criteria of the current one."""
        for name, lessons in self.lessons.items():
            criteria = self.lesson(name).completion_criteria
            if criteria is not None and self.numbers[name] + 1 < len(lessons):
                yield name, criteria

    def advance(self, progress_of: ProgressOf) -> LessonChange | None:
        """Start the next lesson, at most one, of each parameter whose criteria are met; None if none is.

        Returns from before say nothing about the new lessons: the caller is to clear those of every behavior.
        """
        started: list[str] = []
        reset = False
        for name, criteria in list(self.pending()):
            progress = progress_of(criteria.behavior)
            if progress is None:
                continue
            self._warn_without_groups(name, criteria, progress)
            measured, smoothed = measure(criteria, progress, self.smoothed[name])
            if smoothed != self.smoothed[name]:
                self.smoothed[name] = smoothed
                self._set_status(name, SMOOTHED, smoothed)
            if measured is not None and measured > criteria.threshold:
                self.numbers[name] += 1
                self._set_status(name, LESSON, self.numbers[name])
                started.append(name)
                reset = reset or criteria.require_reset
        if not started:
            return None
        self.has_next = any(self.pending())
        return LessonChange(tuple(started), reset)

    def _warn_without_groups(
        self, name: str, criteria: CompletionCriteriaSettings, progress: TrainingProgress
    ) -> None:
        """Say once that a lesson waits for group rewards which nobody has earned yet."""
        waits = criteria.measure is MeasureType.GROUP_REWARD and not progress.by_groups
        if waits and len(progress.returns) >= max(1, criteria.min_lesson_length) and name not in self._warned:
            self._warned.add(name)
            logger.warning(
                "Parameter '%s' measures the group_reward of %s, and none of its groups has earned one yet: "
                "its lesson goes on until they do. measure: reward takes what agents earn instead.",
                name,
                criteria.behavior,
            )

    def follow(self, numbers: Mapping[str, int]) -> LessonChange | None:
        """Begin the lessons of these numbers, as rank 0 of the run has; None where all have begun already."""
        over = [name for name, number in numbers.items() if number != self.numbers[name]]
        criteria = [self.lesson(name).completion_criteria for name in over]
        self.numbers.update(numbers)
        self.has_next = any(self.pending())
        reset = any(one is not None and one.require_reset for one in criteria)
        return LessonChange(tuple(over), reset) if over else None

    def bind_status(self, status: TrainingStatus, *, resumed: bool = False) -> list[str]:
        """Keep the lessons in the run's status from now on, where a resumed run finds them.

        The status is written with every checkpoint and not in between, so that lessons fit the weights.

        Args:
            status: the status of the run.
            resumed: continue with the lessons that the status has.

        Returns:
            Warnings about saved lessons that do not exist any more.

        Raises:
            TrainingStatusError: an entry is not the index of a lesson.
        """
        warnings = []
        self._status = status
        for name, lessons in self.lessons.items():
            if resumed:
                number, self.smoothed[name] = _saved(status, name)
                self.numbers[name] = min(number, len(lessons) - 1)
                if number >= len(lessons):
                    warnings.append(
                        f"Parameter '{name}' was in lesson {number + 1} when the run was saved, and has "
                        f"{len(lessons)} now: it continues in the last one, '{lessons[-1].name}'."
                    )
            self._set_status(name, LESSON, self.numbers[name])
        self.has_next = any(self.pending())
        return warnings

    def state(self) -> dict[str, dict[str, float]]:
        """What the status holds of each parameter, for a checkpoint."""
        return {
            name: {LESSON: number, SMOOTHED: self.smoothed[name]} for name, number in self.numbers.items()
        }

    def _set_status(self, parameter: str, key: str, value: float) -> None:
        if self._status is not None:
            self._status.set(parameter, key, value)


def _saved(status: TrainingStatus, parameter: str) -> tuple[int, float]:
    """The index of the lesson and the smoothed reward of a saved run."""
    number, smoothed = status.get(parameter, LESSON, 0), status.get(parameter, SMOOTHED, 0.0)
    if type(number) is not int or number < 0:
        raise TrainingStatusError(
            f"{status.path}: {parameter}.{LESSON} is {number!r}, expected a whole number from 0."
        )
    if type(smoothed) not in (int, float) or not math.isfinite(smoothed):
        raise TrainingStatusError(
            f"{status.path}: {parameter}.{SMOOTHED} is {smoothed!r}, expected a number."
        )
    return number, float(smoothed)


def measure(
    criteria: CompletionCriteriaSettings, progress: TrainingProgress, smoothed: float
) -> tuple[float | None, float]:
    """The value to compare with the threshold (None: not known yet), and the new smoothed reward.

    As in ML-Agents, every call smooths, whether or not an episode has ended since the last one.
    """
    if len(progress.returns) < criteria.min_lesson_length:
        return None, smoothed
    if criteria.measure is MeasureType.PROGRESS:
        return progress.step / max(progress.max_steps, 1), smoothed
    if criteria.measure is MeasureType.ELO:
        return progress.elo, smoothed
    if not progress.returns or (criteria.measure is MeasureType.GROUP_REWARD and not progress.by_groups):
        return None, smoothed
    mean = sum(progress.returns) / len(progress.returns)
    if not math.isfinite(mean):
        return None, smoothed
    if not criteria.signal_smoothing:
        return mean, smoothed
    mixed = _OLD_WEIGHT * smoothed + (1 - _OLD_WEIGHT) * mean
    return mixed, mixed
