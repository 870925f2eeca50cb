"""The nodes of a cluster: their resources, and whether they respond."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

_DIAL_SECONDS = 2.0
_SHUTDOWN_SECONDS = 1.5
"""For a node that is being killed until its last process is gone."""
_LISTED = 20
_DIALS = 16
"""Nodes that are dialed in parallel."""


@dataclass(frozen=True, slots=True)
class Node:
    """One Ray node; several may share an address."""

    id: str
    address: str
    port: int
    """Of Ray's own process on it, which responds as long as the node is alive."""
    cpus: float
    """Processors in total."""
    free: float | None = None
    """Unused processors; None if not known."""

    @classmethod
    def from_ray(cls, found: dict[str, Any], free: dict[str, dict[str, float]]) -> Node:
        """From an entry of `ray.nodes()`, and free resources by node id."""
        return cls(
            id=found["NodeID"],
            address=found["NodeManagerAddress"],
            port=int(found["NodeManagerPort"]),
            cpus=float(found["Resources"].get("CPU", 0.0)),
            free=free[found["NodeID"]].get("CPU", 0.0) if found["NodeID"] in free else None,
        )

    @property
    def name(self) -> str:
        """For messages; with the id, as two nodes may share a machine, as in tests."""
        return f"node {self.address} ({self.id[:8]})"

    def room(self, cpus: float) -> int:
        """How many environments of `cpus` processors fit on it if nothing else runs there."""
        return int(self.cpus / cpus + 1e-9)

    def answers(self) -> bool:
        """Whether Ray's process on it can be reached; Ray itself may take half a minute to notice."""
        try:
            socket.create_connection((self.address, self.port), _DIAL_SECONDS).close()
        except OSError:
            return False
        return True

    def keeps_answering(self) -> bool:
        """Whether it keeps responding for a while, unlike a node that is being killed."""
        deadline = time.monotonic() + _SHUTDOWN_SECONDS
        while self.answers():
            if time.monotonic() >= deadline:
                return True
            time.sleep(0.1)
        return False

    def as_dict(self) -> dict[str, Any]:
        """As a dict, for `Node(**values)`."""
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
