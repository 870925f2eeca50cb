"""What all behaviors of one run share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from ...envs.validation import NonFinitePolicy
from ..algorithms.common.threads import ACTING_THREADS, UpdateThreads
from ..callbacks.dispatcher import CallbackDispatcher
from ..checkpoints.status import TrainingStatus
from ..curriculum.curriculum import Curriculum
from ..networks.modules.precision import Precision
from ..stats.display import Display
from ..stats.timers import Timers
from ..stats.writer import StatsWriter
from .self_play.team_rotation import TeamRotation


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
    training: bool = True
    resume: bool = False
    inference_steps: int | None = None
    """Steps after which acting without training ends by itself."""
    initialize_from: Path | None = None
    """The run folder, or the checkpoint, whose weights a new run starts from."""
    non_finite: NonFinitePolicy = NonFinitePolicy.STOP
    precision: Precision = Precision.FLOAT32
    restart_engines_at_checkpoints: bool = False
    """A run that goes on then learns, bit for bit, what a run resumed from its checkpoints learns."""
    timers: Timers = field(default_factory=Timers)
    """Of the run's loop; a thread that learns beside it has timers of its own."""
    update_threads: Callable[[], UpdateThreads] = field(default=lambda: UpdateThreads(ACTING_THREADS))
    """Processor threads of a policy update that nothing runs beside."""
    curriculum: Curriculum = field(default_factory=Curriculum)
    """The lesson of each environment parameter."""
    rotation: TeamRotation = field(default_factory=TeamRotation)
    """Which team learns, of the behaviors with self-play."""
    callbacks: CallbackDispatcher = field(default_factory=CallbackDispatcher)
    """Whom the run tells what happens."""
