"""The top layer, which makes trained models from trajectories."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from .. import _refuse
from .._lazy import lazy_exports

if TYPE_CHECKING:
    from .callbacks.base import Callback
    from .callbacks.events import (
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
    from .learn import run_training
    from .settings.command_line import parse_command_line
    from .settings.errors import TrainerConfigError
    from .settings.models.behavior import TrainerSettings
    from .settings.options import RunOptions
    from .stats.reporter import StatsReporter
    from .stats.summary import StatsSummary
    from .stats.writer import StatsPropertyType, StatsWriter
    from .trainer.standalone import (
        COMATrainer,
        DDPGTrainer,
        DQNTrainer,
        MAPPOTrainer,
        POCATrainer,
        PPOTrainer,
        SACTrainer,
        TD3Trainer,
    )
    from .utils.errors import TrainerError

__all__ = [
    "COMATrainer",
    "Callback",
    "CheckpointSaved",
    "DDPGTrainer",
    "DQNTrainer",
    "EngineErrorPrinted",
    "EpisodeEnd",
    "EvaluationEnd",
    "EvaluationStep",
    "MAPPOTrainer",
    "POCATrainer",
    "PPOTrainer",
    "RunOptions",
    "SACTrainer",
    "StatsPropertyType",
    "StatsReporter",
    "StatsSummary",
    "StatsWriter",
    "StepTaken",
    "SummaryDue",
    "TD3Trainer",
    "TrainerConfigError",
    "TrainerError",
    "TrainerSettings",
    "TrainingBegin",
    "TrainingEnd",
    "UpdateEnd",
    "parse_command_line",
    "run_training",
]

_NEEDED = {
    "mlagents_envs": "mlagents-envs",
    "numpy": "numpy",
    "pydantic": "pydantic",
    "yaml": "pyyaml",
    "psutil": "psutil",
}
"""The packages that even the settings need, by the names of imports and of pip."""

_missing = [package for module, package in _NEEDED.items() if find_spec(module) is None]
if _missing:
    _refuse(f"{', '.join(_missing)} is not installed for this Python: pip install {' '.join(_missing)}")

_MODULES = {
    ".callbacks.base": ("Callback",),
    ".callbacks.events": (
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
    ),
    ".learn": ("run_training",),
    ".settings.command_line": ("parse_command_line",),
    ".settings.errors": ("TrainerConfigError",),
    ".settings.models.behavior": ("TrainerSettings",),
    ".settings.options": ("RunOptions",),
    ".stats.reporter": ("StatsReporter",),
    ".stats.summary": ("StatsSummary",),
    ".stats.writer": ("StatsPropertyType", "StatsWriter"),
    ".trainer.standalone": (
        "COMATrainer",
        "DDPGTrainer",
        "DQNTrainer",
        "MAPPOTrainer",
        "POCATrainer",
        "PPOTrainer",
        "SACTrainer",
        "TD3Trainer",
    ),
    ".utils.errors": ("TrainerError",),
}

__getattr__, __dir__ = lazy_exports(__name__, _MODULES)
