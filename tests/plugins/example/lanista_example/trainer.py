"""The trainer `robust_ppo` as the settings know it. Nothing here loads torch."""

from lanista.trainers.settings import PPOSettings, TrainerType
from lanista.trainers.settings.base import Number
from pydantic import Field


class RobustPPOSettings(PPOSettings):
    """PPO that no single step can pull far."""

    largest_advantage: Number = Field(default=10.0, gt=0)
    """Advantages beyond this, in the units of rewards, count as this."""


TRAINER = TrainerType(RobustPPOSettings, recurrent=True, algorithm="lanista_example.algorithm:RobustPPO")
