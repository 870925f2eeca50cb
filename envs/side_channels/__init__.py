"""Data other than observations and actions, on its way between trainer and engine."""

from .analytics import DefaultTrainingAnalyticsSideChannel, TrainingAnalyticsSideChannel
from .engine_configuration import EngineConfig, EngineConfigurationChannel
from .environment_parameters import EnvironmentParametersChannel, Sampler
from .manager import SideChannelManager
from .messages import IncomingMessage, OutgoingMessage
from .parameters import Distribution, Parameters
from .side_channel import FloatPropertiesChannel, RawBytesChannel, SideChannel, StatsSideChannel

__all__ = [
    "DefaultTrainingAnalyticsSideChannel",
    "Distribution",
    "EngineConfig",
    "EngineConfigurationChannel",
    "EnvironmentParametersChannel",
    "FloatPropertiesChannel",
    "IncomingMessage",
    "OutgoingMessage",
    "Parameters",
    "RawBytesChannel",
    "Sampler",
    "SideChannel",
    "SideChannelManager",
    "StatsSideChannel",
    "TrainingAnalyticsSideChannel",
]
