"""The nodes of a cluster: their resources, whether they respond, and what one of them starts."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from ..engines.options import REGISTRY, UNCHANGED, EngineOptions

_CHECK_SECONDS = 120.0
_DOWNLOAD_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Which cluster to use, and how."""

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
    """What a node needs to launch an engine: which one, and where the learner is. JSON-serializable."""

    version: str
    """The version of Lanista that the learner runs."""
    host: str
    """The host of the learner's server."""
    port: int
    token: str = field(repr=False)
    """The token for the learner's server, valid for one engine."""
    fingerprint: str
    """The fingerprint of the server's certificate."""
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
    """Networks from which engines may call on the node, besides the process that is launched there."""
    ignores_errors: bool = False
    """Whether nobody is to listen to the errors that the engine prints."""

    def options(self) -> EngineOptions:
        """The options with which the node starts the engine."""
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
        """The fields as a dict, for `LaunchSpec(**values)`."""
        return asdict(self)


def start_seconds(options: EngineOptions) -> float:
    """Seconds that a node has to start an engine; one that joined the cluster late downloads it first."""
    wait = options.timeout_wait
    return max(wait, _DOWNLOAD_SECONDS) if is_downloaded(str(options.path)) else wait


def check_seconds(file_name: str) -> float:
    """Seconds for all nodes to start a worker and check whether they could launch this engine."""
    return _DOWNLOAD_SECONDS if is_downloaded(file_name) else _CHECK_SECONDS


def is_downloaded(file_name: str) -> bool:
    """Whether nodes download the engine if necessary."""
    return file_name.strip().startswith(REGISTRY)


_DIAL_SECONDS = 2.0
_SHUTDOWN_SECONDS = 1.5
"""Seconds until the last process of a node that is being killed is gone."""
_LISTED = 20
_DIALS = 16
"""The number of nodes that are dialed in parallel."""


@dataclass(frozen=True, slots=True)
class Node:
    """One Ray node; several may share an address."""

    id: str
    address: str
    port: int
    """The port of Ray's own process on the node, which responds as long as the node is alive."""
    cpus: float
    """The node's processors in total."""
    free: float | None = None
    """The node's unused processors; None if not known."""

    @classmethod
    def from_ray(cls, found: dict[str, Any], free: dict[str, dict[str, float]]) -> Node:
        """Make a node from an entry of `ray.nodes()`, and free resources by node id."""
        return cls(
            id=found["NodeID"],
            address=found["NodeManagerAddress"],
            port=int(found["NodeManagerPort"]),
            cpus=float(found["Resources"].get("CPU", 0.0)),
            free=free[found["NodeID"]].get("CPU", 0.0) if found["NodeID"] in free else None,
        )

    @property
    def name(self) -> str:
        """The node's name for messages; with the id, as two nodes may share a machine, as in tests."""
        return f"node {self.address} ({self.id[:8]})"

    def room(self, cpus: float) -> int:
        """How many environments of `cpus` processors fit on the node if nothing else runs there."""
        return int(self.cpus / cpus + 1e-9)

    def answers(self) -> bool:
        """Whether Ray's process on the node can be reached; Ray itself may take half a minute to notice."""
        try:
            socket.create_connection((self.address, self.port), _DIAL_SECONDS).close()
        except OSError:
            return False
        return True

    def keeps_answering(self) -> bool:
        """Whether the node keeps responding for a while, unlike one that is being killed."""
        deadline = time.monotonic() + _SHUTDOWN_SECONDS
        while self.answers():
            if time.monotonic() >= deadline:
                return True
            time.sleep(0.1)
        return False

    def as_dict(self) -> dict[str, Any]:
        """The fields as a dict, for `Node(**values)`."""
        return asdict(self)


def reachable(nodes: Sequence[Node]) -> list[Node]:
    """The nodes that respond, dialed in parallel, since each that does not takes seconds."""
    with ThreadPoolExecutor(_DIALS) as pool:
        return [node for node, answers in zip(nodes, pool.map(Node.answers, nodes)) if answers]


def room(nodes: Sequence[Node], cpus: float) -> int:
    """How many environments fit on all nodes."""
    return sum(node.room(cpus) for node in nodes)


def describe_nodes(nodes: Sequence[Node]) -> str:
    """The nodes and their resources, for messages."""
    if not nodes:
        return "no nodes"
    listed = [_describe(node) for node in nodes[:_LISTED]]
    more = len(nodes) - len(listed)
    return "; ".join([*listed, *([f"and {more} more nodes"] if more else [])])


def _describe(node: Node) -> str:
    free = "" if node.free is None else f", {node.free:g} free"
    return f"{node.name} with {node.cpus:g} CPU{'' if node.cpus == 1 else 's'}{free}"
