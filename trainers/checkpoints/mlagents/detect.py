"""Tells, without torch and without executing anything, what ML-Agents has written."""

from __future__ import annotations

import zipfile
from pathlib import Path

from ...utils.errors import TrainerError

MARK = b"_GlobalSteps__global_step"
"""The name of the step counter in every checkpoint of ML-Agents; ours has another."""


def is_mlagents_file(path: Path) -> bool:
    """Whether a .pt file is a checkpoint of ML-Agents; False also where it cannot be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(MARK in archive.read(name) for name in archive.namelist() if name.endswith("data.pkl"))
    except (OSError, zipfile.BadZipFile, EOFError):
        return False


def refuse_to_resume(run: Path) -> None:
    """Say what can be done with a run of ML-Agents that is to be resumed.

    Its checkpoints lack what an exact continuation needs: random states, the steps that wait for an update.

    Raises:
        TrainerError: a behavior in the run's folder has a checkpoint of ML-Agents.
    """
    for path in sorted(run.glob("*/checkpoint.pt")):
        if is_mlagents_file(path):
            raise TrainerError(
                f"{run} is a run of ML-Agents ({path} is its checkpoint), and --resume goes on with "
                "Lanista's own runs alone. Begin a new run with its weights, normalizers and optimizer: "
                f"--run-id NEW --initialize-from {run.name}. Steps, lessons and schedules then begin anew."
            )
