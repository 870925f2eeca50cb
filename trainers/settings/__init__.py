"""The YAML as typed models.

What is public here is loaded when it is first asked for: models live beside what they configure, which in
turn imports parts of this package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .command_line import parse_command_line as parse_command_line
    from .errors import TrainerConfigError as TrainerConfigError
    from .models.algorithms import PPOSettings as PPOSettings
    from .models.behavior import TrainerSettings as TrainerSettings
    from .models.hyperparameters import HyperparamSettings as HyperparamSettings
    from .models.networks import NetworkSettings as NetworkSettings
    from .options import RunOptions as RunOptions
    from .registry import TrainerType as TrainerType
    from .registry import trainer_types as trainer_types

_HOMES = {
    "NetworkSettings": ".models.networks",
    "PPOSettings": ".models.algorithms",
    "TrainerSettings": ".models.behavior",
    "parse_command_line": ".command_line",
    "TrainerConfigError": ".errors",
    "HyperparamSettings": ".models.hyperparameters",
    "RunOptions": ".options",
    "TrainerType": ".registry",
    "trainer_types": ".registry",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)
