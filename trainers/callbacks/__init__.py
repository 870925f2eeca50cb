"""Callbacks: hooks that a run calls, and the ones that come with Lanista."""

from .base import Callback
from .events import (
    CheckpointSaved,
    EngineErrorPrinted,
    EpisodeEnd,
    EvaluationEnd,
    EvaluationStep,
    StepTaken,
    SummaryDue,
    TrainingBegin,
    TrainingEnd,
    UpdateEnd,
)

__all__ = [
    "Callback",
    "CheckpointSaved",
    "EngineErrorPrinted",
    "EpisodeEnd",
    "EvaluationEnd",
    "EvaluationStep",
    "StepTaken",
    "SummaryDue",
    "TrainingBegin",
    "TrainingEnd",
    "UpdateEnd",
]
