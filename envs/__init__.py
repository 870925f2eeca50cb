"""The first layer: where steps come from. It does not know torch."""

from typing import TYPE_CHECKING, Any

from .._lazy import lazy_exports

if TYPE_CHECKING:
    from .base import BehaviorName, Decision, EnvironmentStep, StatsAggregationMethod
    from .demonstrations.recorder import DemonstrationRecorder
    from .manager.manager import EnvManager
    from .python.sources import make_source
    from .scenes.in_process import WorldEnvironment
    from .scenes.world import World
    from .side_channels import (
        EngineConfig,
        EngineConfigurationChannel,
        EnvironmentParametersChannel,
        FloatPropertiesChannel,
        IncomingMessage,
        OutgoingMessage,
        RawBytesChannel,
        SideChannel,
        SideChannelManager,
        StatsSideChannel,
    )
    from .unity.environment import UnityEnvironment

    # Of a tool, which the core does not import; their types are those in lanista.envs.registry.
    UnityEnvRegistry: Any
    default_registry: Any

__all__ = [
    "BehaviorName",
    "Decision",
    "DemonstrationRecorder",
    "EngineConfig",
    "EngineConfigurationChannel",
    "EnvManager",
    "EnvironmentParametersChannel",
    "EnvironmentStep",
    "FloatPropertiesChannel",
    "IncomingMessage",
    "OutgoingMessage",
    "RawBytesChannel",
    "SideChannel",
    "SideChannelManager",
    "StatsAggregationMethod",
    "StatsSideChannel",
    "UnityEnvRegistry",
    "UnityEnvironment",
    "World",
    "WorldEnvironment",
    "default_registry",
    "make_source",
]

_MODULES = {
    ".base": (
        "BehaviorName",
        "Decision",
        "EnvironmentStep",
        "StatsAggregationMethod",
    ),
    ".demonstrations.recorder": ("DemonstrationRecorder",),
    ".manager.manager": ("EnvManager",),
    ".python.sources": ("make_source",),
    ".registry": (
        "UnityEnvRegistry",
        "default_registry",
    ),
    ".scenes.in_process": ("WorldEnvironment",),
    ".scenes.world": ("World",),
    ".side_channels": (
        "EngineConfig",
        "EngineConfigurationChannel",
        "EnvironmentParametersChannel",
        "FloatPropertiesChannel",
        "IncomingMessage",
        "OutgoingMessage",
        "RawBytesChannel",
        "SideChannel",
        "SideChannelManager",
        "StatsSideChannel",
    ),
    ".unity.environment": ("UnityEnvironment",),
}

__getattr__, __dir__ = lazy_exports(__name__, _MODULES)
