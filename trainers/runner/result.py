"""What a run has left: returned by `lanista.train`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TrainingResult:
    """The outcome of a run, as its folder holds it."""

    folder: Path
    """`<results_dir>/<run_id>`: configuration, checkpoints, statistics, models."""
    brains: Mapping[str, Path]
    """Behavior name to its exported ONNX file. Empty where a network cannot be exported."""
    rewards: Mapping[str, float | None]
    """Behavior name to the mean reward of its most recent episodes; None if none was finished."""
    steps: Mapping[str, int]
    """Behavior name to the agent-steps that it was trained for."""

    @classmethod
    def from_folder(cls, folder: Path) -> TrainingResult:
        """Read the run in `folder`.

        Raises:
            OSError: The folder has no `run_logs/training_status.json`.
        """
        status = json.loads((folder / "run_logs" / "training_status.json").read_text(encoding="utf-8"))
        final = {
            name: entry["final_checkpoint"] for name, entry in status.items() if "final_checkpoint" in entry
        }
        return cls(
            folder=folder,
            brains={path.stem: path for path in sorted(folder.glob("*.onnx"))},
            rewards={name: checkpoint["reward"] for name, checkpoint in final.items()},
            steps={name: checkpoint["steps"] for name, checkpoint in final.items()},
        )
