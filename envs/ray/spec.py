"""The cluster's settings, an engine's specification, and the launch specification for a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..registry.registry import REGISTRY

_CHECK_SECONDS = 120.0
_DOWNLOAD_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Which cluster, and how to use it."""

    address: str
    """`auto` for this machine's cluster, `local` for a new one on it, or HOST:PORT of the head."""
    cpus: float = 1.0
    """Processors per environment."""
    listen: str | None = None
    """ADDRESS or ADDRESS:PORT where nodes reach the learner; None for Ray's address of this machine."""
    wait: float = 0.0
    """Seconds that the cluster may take to grow until it has room for all environments."""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """An engine to launch on any node."""

    file_name: str
    worker_id: int
    timeout: float
    """Seconds that it has to start, and for each answer."""
    windowless: bool = False
    additional_args: Sequence[str] = ()
    log_folder: Path | None = None
    seed: int = 0
    """For a Godot game, which gets it as an argument; other engines get it when they have connected."""
    real_time: bool = False
    """Whether a Godot game keeps to the clock; other engines learn that when they have connected."""

    @property
    def start_seconds(self) -> float:
        """For a node to start it; a node that joined the cluster after the run started downloads it first."""
        return max(self.timeout, _DOWNLOAD_SECONDS) if is_downloaded(self.file_name) else self.timeout


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """For a node: which engine to launch, and where the learner is. JSON-serializable."""

    version: str
    """Of Lanista."""
    host: str
    """Of the learner's server."""
    port: int
    token: str = field(repr=False)
    """Valid for one engine."""
    fingerprint: str
    """Of the server's certificate."""
    name: str
    """The name under which the server expects the engine."""
    file_name: str
    """An executable on the node, or scene:NAME, or godot:PATH."""
    worker_id: int
    windowless: bool
    additional_args: list[str]
    log_folder: str | None
    """The folder of the engine's log on the node."""
    seed: int
    real_time: bool

    def as_dict(self) -> dict[str, Any]:
        """As a dict, for `LaunchSpec(**values)`."""
        return asdict(self)


def check_seconds(file_name: str) -> float:
    """For all nodes to start a worker and check whether they could launch this engine."""
    return _DOWNLOAD_SECONDS if is_downloaded(file_name) else _CHECK_SECONDS


def is_downloaded(file_name: str) -> bool:
    """Whether nodes download it if necessary."""
    return file_name.strip().startswith(REGISTRY)
