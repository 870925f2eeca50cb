"""The YAML as typed models.

The public names are loaded when they are first used: models live beside what they configure, which in turn
imports parts of this package.
"""

from typing import TYPE_CHECKING

from ..._lazy import lazy_exports

if TYPE_CHECKING:
    from .command_line import parse_command_line as parse_command_line
    from .errors import TrainerConfigError as TrainerConfigError
    from .models.algorithms import PPOSettings as PPOSettings
    from .models.behavior import TrainerSettings as TrainerSettings
    from .models.hyperparameters import HyperparamSettings as HyperparamSettings
    from .models.networks import NetworkSettings as NetworkSettings
    from .models.rewards import LearnedRewardSettings as LearnedRewardSettings
    from .models.rewards import RewardSignalSettings as RewardSignalSettings
    from .options import RunOptions as RunOptions
    from .registry import RewardSignal as RewardSignal
    from .registry import TrainerType as TrainerType
    from .registry import trainer_types as trainer_types

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        ".command_line": ("parse_command_line",),
        ".errors": ("TrainerConfigError",),
        ".models.algorithms": ("PPOSettings",),
        ".models.behavior": ("TrainerSettings",),
        ".models.hyperparameters": ("HyperparamSettings",),
        ".models.networks": ("NetworkSettings",),
        ".models.rewards": ("LearnedRewardSettings", "RewardSignalSettings"),
        ".options": ("RunOptions",),
        ".registry": ("RewardSignal", "TrainerType", "trainer_types"),
    },
)
