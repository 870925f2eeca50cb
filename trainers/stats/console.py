"""One line per summary, exactly as ML-Agents prints it: tools search for it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from .earned import GROUP_REWARD, REWARD
from .summary import StatsSummary
from .writer import StatsPropertyType, StatsWriter, hyperparameter_text

logger = logging.getLogger(__name__)

ELO = "Self-play/ELO"
IS_TRAINING = "Is Training"
CLONING_LOSS = "Losses/Pretraining Loss"
_CLONING = {
    CLONING_LOSS: "Loss",
    "Cloning/Held-out Action Error": "Held-out Action Error",
    "Cloning/Held-out Accuracy": "Held-out Accuracy",
}
"""What `lanista clone` reports, which sees no episodes."""


class ConsoleWriter(StatsWriter):
    """Logs the summaries at level INFO. Time counts from the writer's construction."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = clock()
        self._self_play: dict[str, bool] = {}

    def write_stats(self, category: str, values: Mapping[str, StatsSummary], step: int) -> None:
        """Log the line of one summary."""
        logger.info("%s", self.line(category, values, step))

    def line(self, category: str, values: Mapping[str, StatsSummary], step: int) -> str:
        """The line without the level that precedes it."""
        parts = [category, f"Step: {step}", f"Time Elapsed: {self._clock() - self._start:0.3f} s"]
        rewards = values.get(REWARD)
        if rewards is not None and rewards.num:
            parts.append(f"Mean Reward: {rewards.mean:0.3f}")
            if GROUP_REWARD in values:
                parts.append(f"Mean Group Reward: {values[GROUP_REWARD].mean:0.3f}")
            else:
                parts.append(f"Std of Reward: {rewards.std:0.3f}")
            parts.append(_training(values))
            if self._self_play.get(category) and ELO in values:
                parts.append(f"ELO: {values[ELO].mean:0.3f}")
        elif CLONING_LOSS in values and IS_TRAINING not in values:
            parts += [f"{label}: {values[key].mean:0.4f}" for key, label in _CLONING.items() if key in values]
        else:
            parts += ["No episode was completed since last summary", _training(values)]
        return ". ".join(parts) + "."

    def add_property(self, category: str, property_type: StatsPropertyType, value: Any) -> None:
        """Log the hyperparameters; remember which behaviors use self-play."""
        if property_type is StatsPropertyType.HYPERPARAMETERS:
            text = hyperparameter_text(value)
            logger.info("Hyperparameters for behavior name %s: \n%s", category, text)
        elif property_type is StatsPropertyType.SELF_PLAY:
            self._self_play[category] = bool(value)


def _training(values: Mapping[str, StatsSummary]) -> str:
    flag = values.get(IS_TRAINING)
    return "Training" if flag is not None and flag.aggregated_value > 0.0 else "Not Training"
