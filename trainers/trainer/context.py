"""What all behaviors of one run share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from ...envs.validation import NonFinitePolicy
from ..algorithms.fast.threads import ACTING_THREADS, UpdateThreads
from ..callbacks.dispatcher import CallbackDispatcher
from ..checkpoints.status import TrainingStatus
from ..curriculum import Curriculum
from ..networks.modules.passes import Precision
from ..stats.display import Display
from ..stats.timers import Timers
from ..stats.writer import StatsWriter
from .self_play.team_rotation import TeamRotation


@dataclass
class StopRequest:
    """Whether the user wants the run to end. Whatever waits in a run asks for it, at least every second."""

    asked: bool = False


@dataclass(frozen=True)
class RunContext:
    """What all behaviors of one run share."""

    folder: Path
    """`<results>/<run id>`."""
    seed: int
    status: TrainingStatus
    writers: Sequence[StatsWriter]
    display: Display
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    first_environment: int = 0
    """The number of this rank's first environment among those of the run."""
    training: bool = True
    resume: bool = False
    inference_steps: int | None = None
    """Steps after which an inference run ends by itself."""
    initialize_from: Path | None = None
    """The run folder, or the checkpoint, from whose weights a new run starts."""
    non_finite: NonFinitePolicy = NonFinitePolicy.STOP
    precision: Precision = Precision.FLOAT32
    restart_engines_at_checkpoints: bool = False
    """The run then learns, bit for bit, what a run resumed from its checkpoints learns."""
    timers: Timers = field(default_factory=Timers)
    """Of the run's loop; a thread that learns beside it has its own timers."""
    update_threads: Callable[[], UpdateThreads] = field(default=lambda: UpdateThreads(ACTING_THREADS))
    """CPU threads of a policy update that runs alone."""
    curriculum: Curriculum = field(default_factory=Curriculum)
    """The lesson of each environment parameter."""
    rotation: TeamRotation = field(default_factory=TeamRotation)
    """Which team learns, of the behaviors with self-play."""
    collected_bytes: dict[str, int] = field(default_factory=dict)
    """How much each behavior holds when its buffer or replay is full, by its name."""
    callbacks: CallbackDispatcher = field(default_factory=CallbackDispatcher)
    """Receives the run's events."""
    stop: StopRequest = field(default_factory=StopRequest)
    timeout: float = 60.0
    """Seconds after which a process of the run that shows no sign of life counts as lost."""
