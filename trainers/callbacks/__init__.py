"""Callbacks: hooks that a run calls, and the ones that come with Lanista."""

from .base import Callback
from .events import (
    CheckpointSaved,
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
    "EpisodeEnd",
    "EvaluationEnd",
    "EvaluationStep",
    "StepTaken",
    "SummaryDue",
    "TrainingBegin",
    "TrainingEnd",
    "UpdateEnd",
]
