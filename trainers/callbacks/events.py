"""The events that callbacks receive: one small dataclass per hook."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from ...envs.base import EnvironmentStep
from ..episodes.scores import EpisodeScore
from ..utils.films import Frame, Image

if TYPE_CHECKING:
    from ..settings.options import RunOptions


class Event:
    """Something that happens in a run."""

    __slots__ = ()

    hook: ClassVar[str]
    """The method of a callback that the event calls."""


@dataclass(frozen=True, slots=True)
class TrainingBegin(Event):
    """The run is about to launch its environments."""

    hook = "on_training_begin"

    run_id: str
    folder: Path
    """The folder that the run's files go to."""
    options: RunOptions
    """Every setting of the run."""
    resumed: bool


@dataclass(frozen=True, slots=True)
class StepTaken(Event):
    """An environment has stepped, and was sent its next actions."""

    hook = "on_environment_step"

    environment_step: EnvironmentStep
    """The environment, its agents' observations and rewards, and the decisions that led to them."""
    steps: Mapping[str, int]
    """Trainer steps so far, by behavior."""


@dataclass(frozen=True, slots=True)
class EpisodeEnd(Event):
    """The trainer has counted the last step of an agent's episode."""

    hook = "on_episode_end"

    behavior: str
    step: int
    """Trainer steps of the behavior so far."""
    environment: int
    agent: int
    """The engine's number of the agent."""
    reward: float
    """The agent's return from the environment."""
    group_reward: float | None
    """What the agent's group earned while the agent lived; None unless the group has ended with this episode.
    Of members that end together the last one has it. Without a group None beside groups, else 0."""
    length: int
    """Decisions in the episode."""
    seat: str = ""
    """The agent's team, as in `Soccer?team=0`, if the behavior's teams are compared by the mean over them."""


@dataclass(frozen=True, slots=True)
class UpdateEnd(Event):
    """The policy of a behavior has new weights."""

    hook = "on_update_end"

    behavior: str
    step: int
    """Trainer steps of the behavior so far."""
    metrics: Mapping[str, float]
    """Losses and schedules, by the names of their statistics, such as `Losses/Policy Loss`."""


@dataclass(frozen=True, slots=True)
class SummaryDue(Event):
    """Statistics are written: those since the last summary, or those of an evaluation."""

    hook = "on_summary"

    behavior: str
    step: int
    """The step that the statistics belong to."""
    metrics: Mapping[str, float]
    """Statistics by their TensorBoard tags, each as the number that is written there."""


@dataclass(frozen=True, slots=True)
class CheckpointSaved(Event):
    """A checkpoint was saved."""

    hook = "on_checkpoint"

    behavior: str
    step: int
    weights: Path
    """The path of the weights, `<behavior>-<step>.pt`."""
    brains: tuple[Path, ...]
    """The ONNX files that were written with it; none if the model could not be verified."""
    reward: float | None
    """Mean return of the last episodes, from 10 to 100 of each team: of groups where these earn rewards, else
    of agents. None before 10 have ended."""
    due: bool
    """Whether it is one of the checkpoints that checkpoint_interval asks for, or the last one of the run."""
    by_groups: bool = False
    """Whether `reward` is of groups."""


@dataclass(frozen=True, slots=True)
class EngineErrorPrinted(Event):
    """An engine has printed an error of a new kind: such as an exception in a game's script."""

    hook = "on_engine_error"

    engine: str
    """`Unity`, `Godot`, `Unreal` or `Python`."""
    environment: str
    """The environment's name in messages: `environment 0`."""
    text: str
    """The error's own sentence, in one line."""
    place: str
    """The user's file and line, such as `res://agent.gd:19`, or a method; empty where neither is known."""
    log: Path | None
    """The file that holds it, if there is one."""
    is_warning: bool
    """Whether it is a warning of Lanista's addon for Godot."""
    steps: Mapping[str, int]
    """Trainer steps so far, by behavior."""


@dataclass(frozen=True, slots=True)
class EvaluationStep(Event):
    """The environment of an evaluation has stepped."""

    hook = "on_evaluation_step"

    number: int
    """Steps of the evaluation so far; 0 for the first observations after the reset."""
    environment_step: EnvironmentStep
    steps: Mapping[str, int]
    """Trainer steps of the behaviors that are evaluated."""
    ended: Sequence[EpisodeScore]
    """The counted episodes that ended with this step."""
    render: Callable[[], Image | None]
    """Renders the environment in its current state; None if it cannot render itself."""


class ShowVideo(Protocol):
    """Shows an animation beside a behavior's curves, if a stats writer can."""

    def __call__(self, tag: str, gif: bytes, size: tuple[int, int]) -> None:
        """Show the GIF, of (width, height) pixels."""
        ...


@dataclass(frozen=True, slots=True)
class EvaluationEnd(Event):
    """An evaluation of a behavior is over."""

    hook = "on_evaluation_end"

    behavior: str
    step: int
    """Trainer steps of the behavior at the time of the evaluation."""
    score: float
    """What policies are compared by: in self-play the rating; otherwise the mean return, of groups if they
    earn rewards, else of agents. If the behavior has several teams or seats, the mean over these."""
    std: float
    """The standard deviation of the returns."""
    rewards: Sequence[float]
    """The returns of the counted agents' episodes, in the order in which they ended."""
    group_rewards: Sequence[float]
    """The returns of the counted groups."""
    lengths: Sequence[int]
    """The decisions but the last in each of the agents' episodes, as in `Environment/Episode Length`."""
    seconds: float
    """How long the evaluation took, during which training paused."""
    folder: Path
    """The behavior's folder, which holds its checkpoints."""
    save: Callable[[], Path | None] = field(compare=False)
    """Saves the policy in a numbered checkpoint and returns the path of its weights, or None if that failed.
    The checkpoint is deleted when keep_checkpoints and keep_best no longer keep it, so copy it."""
    show_video: ShowVideo = field(compare=False)
    seats: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """The returns of each team or seat by its name; a single one if the behavior has but one team."""
    by_groups: bool = False
    """Whether `score` is a return of groups."""
    film: Callable[[int], list[Frame] | None] = field(compare=False, default=lambda most: [])
    """Replays the evaluation, whose environment starts with the same seed, and renders the best counted
    episode: its first frames, at most as many as asked for. Empty if the environment does not render itself;
    None if the replay has failed, or the run is to end."""


@dataclass(frozen=True, slots=True)
class TrainingEnd(Event):
    """The run is over, and everything that could be written is written."""

    hook = "on_training_end"

    folder: Path
    steps: Mapping[str, int]
    """Trainer steps, by behavior."""
    brains: Mapping[str, Path]
    """`<run>/<behavior>.onnx` of the behaviors that have one, by their names; `<behavior>-place<k>.onnx`
    where each slot of a group has its own."""
    reason: str | None
    """The callback that stopped the run, and why; None if none did."""
    error: BaseException | None
    """The exception that ended the run; None for a run that ended normally."""
