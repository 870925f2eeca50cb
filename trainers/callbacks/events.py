"""What callbacks are told: one small dataclass for each hook."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from ...envs.base import EnvironmentStep

if TYPE_CHECKING:
    from ..settings.options import RunOptions

Picture = NDArray[np.uint8]
"""[height, width, 3], red, green and blue."""


@dataclass(frozen=True, slots=True)
class TrainingBegin:
    """The run is about to launch its environments."""

    run_id: str
    folder: Path
    """Where the run's files go."""
    options: RunOptions
    """Every setting of the run."""
    resumed: bool


@dataclass(frozen=True, slots=True)
class StepTaken:
    """An environment has answered, and was answered."""

    answer: EnvironmentStep
    """Which environment, what its agents saw and earned, and which decisions it answers."""
    steps: Mapping[str, int]
    """Trainer steps so far, by behaviour."""


@dataclass(frozen=True, slots=True)
class EpisodeEnd:
    """The trainer has counted the last step of an agent's episode."""

    behavior: str
    step: int
    """Trainer steps of the behaviour so far."""
    environment: int
    agent: int
    """The engine's number of the agent."""
    reward: float
    """What the environment gave the agent in the episode."""
    group_reward: float | None
    """What its group earned while the agent lived, told where that ended the group too; else None."""
    length: int
    """Decisions in the episode."""


@dataclass(frozen=True, slots=True)
class UpdateEnd:
    """The policy of a behaviour has new weights."""

    behavior: str
    step: int
    """Trainer steps of the behaviour so far."""
    figures: Mapping[str, float]
    """Losses and schedules, by statistics' names such as `Losses/Policy Loss`."""


@dataclass(frozen=True, slots=True)
class SummaryDue:
    """Statistics are written: those since the last summary, or those of a test."""

    behavior: str
    step: int
    """The step that the statistics belong to."""
    figures: Mapping[str, float]
    """Statistics by their names in TensorBoard, each as the number that is written there."""


@dataclass(frozen=True, slots=True)
class CheckpointSaved:
    """A checkpoint lies on the disk."""

    behavior: str
    step: int
    weights: Path
    """`<behavior>-<step>.pt`."""
    brains: tuple[Path, ...]
    """The ONNX files that were written with it; none where the brain could not be verified."""
    reward: float | None
    """Mean reward of the episodes that finished since the last policy update; None without any."""
    due: bool
    """It is one of those that checkpoint_interval asks for, or the last one."""


@dataclass(frozen=True, slots=True)
class EpisodeScore:
    """A finished episode of a test that is counted."""

    behavior: str
    agent: int
    reward: float
    length: int
    """Decisions."""
    first: int
    """The number of the test's step with which it began."""
    last: int
    """The number of the test's step with which it ended."""


@dataclass(frozen=True, slots=True)
class EvaluationStep:
    """The environment of a test has answered."""

    number: int
    """Steps of the test so far; 0 for what the reset gave."""
    answer: EnvironmentStep
    steps: Mapping[str, int]
    """Trainer steps of the behaviours that are tested."""
    ended: Sequence[EpisodeScore]
    """The counted episodes that ended with this step."""
    oldest: int
    """The number of the step with which the oldest episode began that is counted and still goes on."""
    newest: int
    """The same of the newest one; that of this step where none goes on."""
    picture: Callable[[], Picture | None]
    """Draws the environment as it is now; None where it does not draw itself."""


class ShowVideo(Protocol):
    """Shows an animation beside a behaviour's curves, where a stats writer can."""

    def __call__(self, tag: str, gif: bytes, size: tuple[int, int]) -> None:
        """Show the GIF, of (width, height) pixels."""
        ...


@dataclass(frozen=True, slots=True)
class EvaluationEnd:
    """A test of a behaviour is over."""

    behavior: str
    step: int
    """Trainer steps of the behaviour at the test."""
    score: float
    """The mean reward by which the policy is judged: of groups where they earn any, else of agents."""
    spread: float
    """The standard deviation of what `score` is the mean of."""
    rewards: Sequence[float]
    """Of the counted agents' episodes, in the order in which they ended."""
    group_rewards: Sequence[float]
    """Of the counted groups."""
    lengths: Sequence[int]
    """Decisions in each of the agents' episodes."""
    seconds: float
    """How long the test took; the training waited meanwhile."""
    folder: Path
    """The behaviour's own, where its checkpoints are."""
    save: Callable[[], Path | None] = field(compare=False)
    """Saves the policy now, in a numbered checkpoint: the path of the weights, None if that failed. It stays
    while it is one of those that keep_checkpoints or keep_best let stay, so copy it."""
    show_video: ShowVideo = field(compare=False)


@dataclass(frozen=True, slots=True)
class TrainingEnd:
    """The run is over and everything is written that could be."""

    folder: Path
    steps: Mapping[str, int]
    """Trainer steps, by behaviour."""
    brains: Mapping[str, Path]
    """`<run>/<behavior>.onnx`, of the behaviours that have one."""
    reason: str | None
    """Which callback ended it and why; None if none did."""
    error: BaseException | None
    """What went wrong; None for a run that ended in good order."""


Event = (
    TrainingBegin
    | StepTaken
    | EpisodeEnd
    | UpdateEnd
    | SummaryDue
    | CheckpointSaved
    | EvaluationStep
    | EvaluationEnd
    | TrainingEnd
)
