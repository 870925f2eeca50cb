"""Which cluster, which engine, and what a node is told of it."""

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
    """Which cluster, and what of it."""

    address: str
    """`auto` for that of this machine, `local` for a new one on it, or HOST:PORT of the head."""
    cpus: float = 1.0
    """Processors of an environment."""
    listen: str | None = None
    """ADDRESS or ADDRESS:PORT at which nodes reach the learner; None for Ray's address of this machine."""
    wait: float = 0.0
    """Seconds in which the cluster may grow until it has room for all environments."""


@dataclass(frozen=True, slots=True)
class EngineOrder:
    """An engine that is wanted, wherever."""

    file_name: str
    worker_id: int
    timeout: float
    """Seconds that it has to start, and for each answer."""
    windowless: bool = False
    additional_args: Sequence[str] = ()
    log_folder: Path | None = None

    @property
    def starting_seconds(self) -> float:
        """What a node has to start it. One that joined the cluster after the run began downloads it first."""
        return max(self.timeout, _DOWNLOAD_SECONDS) if downloaded(self.file_name) else self.timeout


@dataclass(frozen=True, slots=True)
class Order:
    """What a node is told: which engine to bring up, and where the learner is. All of it can be JSON."""

    version: str
    """Of Lanista."""
    host: str
    """Where the learner's gate is."""
    port: int
    token: str = field(repr=False)
    """Good for one engine."""
    fingerprint: str
    """Of the gate's certificate."""
    name: str
    """By which the gate expects the engine."""
    file_name: str
    """An executable on the node, or scene:NAME."""
    worker_id: int
    windowless: bool
    additional_args: list[str]
    log_folder: str | None
    """Where the engine's log goes, on the node."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for `Order(**values)`."""
        return asdict(self)


def check_seconds(file_name: str) -> float:
    """What all nodes have to start a worker, and to look whether it could bring this engine up."""
    return _DOWNLOAD_SECONDS if downloaded(file_name) else _CHECK_SECONDS


def downloaded(file_name: str) -> bool:
    """Whether a node downloads it, unless it is there."""
    return file_name.strip().startswith(REGISTRY)
