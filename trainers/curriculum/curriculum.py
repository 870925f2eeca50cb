"""Goes through the lessons of environment parameters as agents learn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..checkpoints.status import TrainingStatus, TrainingStatusError
from ..settings.models.environment_parameters import (
    CompletionCriteriaSettings,
    EnvironmentParameters,
    Lesson,
    MeasureType,
    SamplerSettings,
    with_seeds,
)

LESSON = "lesson_num"
"""ML-Agents' key in training_status.json."""
SMOOTHED = "smoothed_reward"
"""Our key beside it, without which a resumed run would measure otherwise than one that goes on."""
_OLD_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """How far a behaviour's training has come."""

    step: int
    """Trainer steps."""
    max_steps: int
    returns: Sequence[float] = ()
    """What the last episodes have earned from the environment, one number each."""
    elo: float | None = None
    """The rating of self-play; None without one."""


@dataclass(frozen=True, slots=True)
class LessonChange:
    """Lessons that are over."""

    parameters: tuple[str, ...]
    """Whose next lesson has begun."""
    reset: bool
    """One of the lessons wants the environments to be reset."""


ProgressOf = Callable[[str], TrainingProgress | None]
"""Of a behaviour, by its name; None while no environment has shown it."""


class Curriculum:
    """The lesson of every environment parameter, and when the next one begins.

    A parameter that is a number or a sampler has one lesson, which never ends.
    """

    def __init__(self, parameters: EnvironmentParameters | None = None, run_seed: int = 0) -> None:
        """Begin with the first lesson of each parameter.

        Args:
            parameters: as the run's settings have them.
            run_seed: samplers without a seed get theirs from it.
        """
        seeded = with_seeds(parameters or {}, run_seed)
        self.lessons: dict[str, list[Lesson]] = {
            name: parameter.curriculum for name, parameter in seeded.items() if parameter.curriculum
        }
        self.numbers = dict.fromkeys(self.lessons, 0)
        """The number of each parameter's lesson, from 0."""
        self.smoothed = dict.fromkeys(self.lessons, 0.0)
        """The smoothed reward of each parameter's criteria; it is kept from lesson to lesson."""
        self._status: TrainingStatus | None = None

    def lesson(self, parameter: str) -> Lesson:
        """The lesson that a parameter is in."""
        return self.lessons[parameter][self.numbers[parameter]]

    def samplers(self) -> dict[str, SamplerSettings]:
        """What environments are to be told, by the parameters' names."""
        return {name: self.lesson(name).value for name in self.lessons}

    def line(self, parameter: str) -> str:
        """ML-Agents' line about a parameter's lesson."""
        lesson = self.lesson(parameter)
        value = lesson.value.description()
        return f"Parameter '{parameter}' is in lesson '{lesson.name}' and has value '{value}'."

    def returns_kept(self, behavior: str) -> int:
        """Of how many last episodes of a behaviour the returns are wanted; at least 1."""
        lengths = (
            lesson.completion_criteria.min_lesson_length
            for lessons in self.lessons.values()
            for lesson in lessons
            if lesson.completion_criteria is not None and lesson.completion_criteria.behavior == behavior
        )
        return max(lengths, default=1) or 1

    def awaited(self) -> Iterator[tuple[str, CompletionCriteriaSettings]]:
        """The parameters whose lesson has a successor, and what ends it."""
        for name, lessons in self.lessons.items():
            criteria = self.lesson(name).completion_criteria
            if criteria is not None and self.numbers[name] + 1 < len(lessons):
                yield name, criteria

    def advance(self, progress_of: ProgressOf) -> LessonChange | None:
        """Begin the next lesson, at most one, of each parameter whose criteria are met; None without any.

        The returns that met them say nothing of the new lessons: the caller is to forget those of every
        behaviour.
        """
        over: list[str] = []
        reset = False
        for name, criteria in list(self.awaited()):
            progress = progress_of(criteria.behavior)
            if progress is None:
                continue
            measured, smoothed = measure(criteria, progress, self.smoothed[name])
            if smoothed != self.smoothed[name]:
                self.smoothed[name] = smoothed
                self._note(name, SMOOTHED, smoothed)
            if measured is not None and measured > criteria.threshold:
                self.numbers[name] += 1
                self._note(name, LESSON, self.numbers[name])
                over.append(name)
                reset = reset or criteria.require_reset
        return LessonChange(tuple(over), reset) if over else None

    def keep_in(self, status: TrainingStatus, *, resumed: bool = False) -> list[str]:
        """Note in the run's status, from now on, what a resumed run needs.

        The status is written with every checkpoint and not in between: lessons then fit the weights.

        Args:
            status: of the run.
            resumed: go on with the lessons that it has.

        Returns:
            Sentences about lessons that the run was in and that are not there any more.

        Raises:
            TrainingStatusError: an entry is no number of a lesson.
        """
        complaints = []
        self._status = status
        for name, lessons in self.lessons.items():
            if resumed:
                number, self.smoothed[name] = _saved(status, name)
                self.numbers[name] = min(number, len(lessons) - 1)
                if number >= len(lessons):
                    complaints.append(
                        f"Parameter '{name}' was in lesson {number + 1} when the run was saved, and has "
                        f"{len(lessons)} now: it goes on in the last one, '{lessons[-1].name}'."
                    )
            self._note(name, LESSON, self.numbers[name])
        return complaints

    def _note(self, parameter: str, key: str, value: float) -> None:
        if self._status is not None:
            self._status.set(parameter, key, value)


def _saved(status: TrainingStatus, parameter: str) -> tuple[int, float]:
    """Number of the lesson and smoothed reward, as a saved run has them."""
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
    """What is held against the threshold (None: nothing can be said yet), and the new smoothed reward.

    As in ML-Agents, smoothing is done at every look, whether or not an episode has ended since the last.
    """
    if len(progress.returns) < criteria.min_lesson_length:
        return None, smoothed
    if criteria.measure is MeasureType.PROGRESS:
        return progress.step / progress.max_steps, smoothed
    if criteria.measure is MeasureType.ELO:
        return progress.elo, smoothed
    if not progress.returns:
        return None, smoothed
    mean = sum(progress.returns) / len(progress.returns)
    if not math.isfinite(mean):
        return None, smoothed
    if not criteria.signal_smoothing:
        return mean, smoothed
    mixed = _OLD_SHARE * smoothed + (1 - _OLD_SHARE) * mean
    return mixed, mixed
