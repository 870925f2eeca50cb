"""The reward signal `action_cost` as the settings know it. Nothing here loads torch."""

from lanista.trainers.settings import RewardSignal, RewardSignalSettings
from lanista.trainers.settings.base import Number
from pydantic import Field


class ActionCostSettings(RewardSignalSettings):
    """A negative reward for effort."""

    free: Number = Field(default=0.0, ge=0)
    """This much effort in a step costs nothing."""


SIGNAL = RewardSignal(ActionCostSettings, provider="lanista_example.action_cost:ActionCost")
