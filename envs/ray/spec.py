"""The cluster's settings, and the launch specification for a node."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ..engines.options import UNCHANGED, EngineOptions
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
    allow: list[str]
    """Networks from which it may call on the node, besides as the process that is launched there."""

    def options(self) -> EngineOptions:
        """Of the engine, for the node."""
        return EngineOptions.of(
            path=self.file_name,
            worker_id=self.worker_id,
            no_graphics=self.windowless,
            additional_args=self.additional_args,
            log_folder=self.log_folder,
            seed=self.seed,
            configuration=UNCHANGED._replace(time_scale=1.0 if self.real_time else None),
            allow=self.allow,
        )

    def as_dict(self) -> dict[str, Any]:
        """As a dict, for `LaunchSpec(**values)`."""
        return asdict(self)


def start_seconds(options: EngineOptions) -> float:
    """For a node to start an engine; one that joined the cluster after the run started downloads it first."""
    wait = options.timeout_wait
    return max(wait, _DOWNLOAD_SECONDS) if is_downloaded(str(options.path)) else wait


def check_seconds(file_name: str) -> float:
    """For all nodes to start a worker and check whether they could launch this engine."""
    return _DOWNLOAD_SECONDS if is_downloaded(file_name) else _CHECK_SECONDS


def is_downloaded(file_name: str) -> bool:
    """Whether nodes download it if necessary."""
    return file_name.strip().startswith(REGISTRY)
