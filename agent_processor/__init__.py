"""The second layer: from steps to trajectories. It knows no algorithm."""

from typing import TYPE_CHECKING

from .._lazy import lazy_exports

if TYPE_CHECKING:
    from .processor import AgentManager, AgentProcessor
    from .queues import AgentManagerQueue, StatsSink
    from .trajectory import AgentKey, Rollout, Trajectory

__all__ = [
    "AgentKey",
    "AgentManager",
    "AgentManagerQueue",
    "AgentProcessor",
    "Rollout",
    "StatsSink",
    "Trajectory",
]

_MODULES = {
    ".processor": ("AgentManager", "AgentProcessor"),
    ".queues": ("AgentManagerQueue", "StatsSink"),
    ".trajectory": ("AgentKey", "Rollout", "Trajectory"),
}

__getattr__, __dir__ = lazy_exports(__name__, _MODULES)
