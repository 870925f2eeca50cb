"""What a run calls as it goes on: callbacks of the user's, and those that come along."""

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
