"""What all behaviors of one run share, and what a trainer is made with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypedDict

import torch

from ...envs.engines.terms import UNKNOWN, Terms
from ...envs.validation import NonFinitePolicy
from ..algorithms.fast.threads import ACTING_THREADS, UpdateThreads
from ..callbacks.dispatcher import CallbackDispatcher
from ..checkpoints.engine_errors import RecordedErrors
from ..checkpoints.status import TrainingStatus
from ..curriculum import Curriculum
from ..networks.modules.passes import Precision
from ..stats.display import Display
from ..stats.timers import Timers
from ..stats.writer import StatsWriter
from .self_play.team_rotation import TeamRotation


class TrainerEvents(Protocol):
    """What a trainer calls when something is due; the run writes the files."""

    def on_summary(self, step: int) -> bool:
        """The statistics belong to this multiple of `summary_freq`. True: `on_best_policy` is due too."""
        ...

    def on_best_policy(self) -> bool:
        """Save the best policy so far, beside the checkpoints that are due. Returns as `on_checkpoint`."""
        ...

    def on_checkpoint(self) -> bool:
        """Save now. True: drop what has not been counted yet, because the engines restart."""
        ...

    def on_reward_reached(self, reached: float) -> None:
        """The mean reward, in self-play the rating, has reached `stop_at_reward`: training is over."""
        ...

    def on_steps_processed(self) -> None:
        """Trajectories were processed: the normalizer's statistics have changed."""
        ...

    def on_update(self, metrics: Mapping[str, float]) -> None:
        """The policy has new weights; the update's metrics, by statistics' names."""
        ...


class TrainerOptions(TypedDict, total=False):
    """The optional arguments of every trainer."""

    name: str
    """The behavior's name in messages. Default: empty."""
    training: bool
    """Whether to learn, or only to act. Default: True."""
    non_finite: NonFinitePolicy
    """What to do about numbers that are not finite. Default: STOP."""
    returns_kept: int
    """How many returns of the last episodes are kept. Default: 1."""
    seed: int
    """The seed of what is sampled for updates. Default: 0."""
    device: torch.device
    """The device that the trainer learns on. Default: the CPU."""
    update_threads: UpdateThreads | None
    """CPU threads of an update. Default: those of torch, as far as products are large enough for them."""
    in_thread: bool
    """Whether the trainer updates in a thread of its own. Default: False."""
    spread_updates: bool
    """Whether off-policy updates that are due at once are made gradually, in calls of `continue_updates` too.
    Default: False."""
    timers: Timers | None
    """The trainer's timers. Default: timers of its own."""


@dataclass
class StopRequest:
    """Whether the user wants the run to end. Whatever waits in a run asks for it, at least every second."""

    asked: bool = False


@dataclass(frozen=True)
class RunContext:
    """What all behaviors of one run share."""

    folder: Path
    """The run's folder, `<results>/<run id>`."""
    seed: int
    status: TrainingStatus
    writers: Sequence[StatsWriter]
    display: Display
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    first_environment: int = 0
    """The number of this rank's first environment among those of the run."""
    training: bool = True
    resume: bool = False
    recorded: Mapping[str | None, Any] = field(default_factory=dict)
    """The behaviors' settings in the configuration.yaml of a resumed run, before it was written again."""
    inference_steps: int | None = None
    """Steps after which an inference run ends by itself."""
    initialize_from: Path | None = None
    """The run folder, or the checkpoint, from whose weights a new run starts."""
    non_finite: NonFinitePolicy = NonFinitePolicy.STOP
    precision: Precision = Precision.FLOAT32
    restart_engines_at_checkpoints: bool = False
    """Whether engines restart at checkpoints: the run then learns, bit for bit, what resumed runs learn."""
    timers: Timers = field(default_factory=Timers)
    """The timers of the run's loop; a thread that learns beside it has its own timers."""
    update_threads: Callable[[], UpdateThreads] = field(default=lambda: UpdateThreads(ACTING_THREADS))
    """CPU threads of a policy update that runs alone."""
    curriculum: Curriculum = field(default_factory=Curriculum)
    """The lesson of each environment parameter."""
    rotation: TeamRotation = field(default_factory=TeamRotation)
    """The rotation by which teams learn, of the behaviors with self-play."""
    collected_bytes: dict[str, int] = field(default_factory=dict)
    """The bytes that each behavior holds when its buffer or replay is full, by its name."""
    callbacks: CallbackDispatcher = field(default_factory=CallbackDispatcher)
    """What receives the run's events."""
    errors: RecordedErrors = field(default_factory=RecordedErrors)
    """What the engines print of errors."""
    stop: StopRequest = field(default_factory=StopRequest)
    terms: Terms = UNKNOWN
    """The words for the environments in messages to their users."""
    timeout: float = 60.0
    """Seconds after which a process of the run that shows no sign of life counts as lost."""
