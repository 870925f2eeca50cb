"""How agents play against older selves."""

from __future__ import annotations

from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from ..base import Integer, Number, Settings
from ..errors import note


def _five_snapshots(data: dict[str, Any]) -> int:
    return 5 * int(data.get("save_steps", 20000))


class SelfPlaySettings(Settings):
    """A behavior's two teams learn in turn, the other one acting by a snapshot."""

    save_steps: Integer = Field(default=20000, ge=1)
    """Trainer steps between snapshots."""
    team_change: Integer = Field(default_factory=_five_snapshots, ge=1)
    """Trainer steps until the other team learns. Not given: 5 x save_steps."""
    swap_steps: Integer = Field(default=2000, ge=1)
    """Steps of the acting team until it gets another snapshot."""
    window: Integer = Field(default=10, ge=1)
    """Number of snapshots to choose opponents from: more of them, steadier learning."""
    play_against_latest_model_ratio: Number = 0.5
    """Probability that the opponent is the newest policy instead of a snapshot."""
    initial_elo: Number = 1200.0
    """The rating to begin with."""

    @field_validator("play_against_latest_model_ratio")
    @classmethod
    def _probability(cls, value: float, info: ValidationInfo) -> float:
        if not 0 <= value <= 1:
            side = "the newest policy" if value > 1 else "a snapshot"
            note(info, f"found {value:g}, expected a probability from 0 to 1; the opponent is always {side}.")
        return value
