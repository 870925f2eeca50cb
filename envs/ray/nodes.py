"""The nodes of a cluster: what each offers, whether it is still there."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

_DIAL_SECONDS = 2.0
_DYING_SECONDS = 1.5
"""What a node that is being killed needs until its last process has gone."""
_LISTED = 20
_DIALS = 16
"""Nodes that are asked at once whether they are there."""


@dataclass(frozen=True, slots=True)
class Node:
    """One machine of a cluster, as Ray knows it; several may share an address."""

    id: str
    address: str
    port: int
    """Of Ray's own process on it, which answers as long as the node is there."""
    cpus: float
    """Processors that it offers in all."""
    free: float | None = None
    """Those that nobody has taken; None where that is not known."""

    @classmethod
    def from_ray(cls, found: dict[str, Any], free: dict[str, dict[str, float]]) -> Node:
        """From an entry of `ray.nodes()`, and what is free by the ids of nodes."""
        return cls(
            id=found["NodeID"],
            address=found["NodeManagerAddress"],
            port=int(found["NodeManagerPort"]),
            cpus=float(found["Resources"].get("CPU", 0.0)),
            free=free[found["NodeID"]].get("CPU", 0.0) if found["NodeID"] in free else None,
        )

    @property
    def name(self) -> str:
        """How messages call it: two nodes may share a machine, as in tests."""
        return f"node {self.address} ({self.id[:8]})"

    def room(self, cpus: float) -> int:
        """How many environments of this many processors fit, if nothing else ran on it."""
        return int(self.cpus / cpus + 1e-9)

    def answers(self) -> bool:
        """Whether Ray's process on it can be reached; Ray itself may take half a minute to miss it."""
        try:
            socket.create_connection((self.address, self.port), _DIAL_SECONDS).close()
        except OSError:
            return False
        return True

    def goes_on_answering(self) -> bool:
        """The same for a little while: one that is just being ended may answer for a moment longer."""
        deadline = time.monotonic() + _DYING_SECONDS
        while self.answers():
            if time.monotonic() >= deadline:
                return True
            time.sleep(0.1)
        return False

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for `Node(**values)`."""
        return asdict(self)


def there(nodes: Sequence[Node]) -> list[Node]:
    """Those that answer. They are asked side by side: each that does not takes seconds."""
    with ThreadPoolExecutor(_DIALS) as pool:
        return [node for node, answers in zip(nodes, pool.map(Node.answers, nodes)) if answers]


def room(nodes: Sequence[Node], cpus: float) -> int:
    """How many environments fit on all of them."""
    return sum(node.room(cpus) for node in nodes)


def offers(nodes: Sequence[Node]) -> str:
    """What each node offers, for messages."""
    if not nodes:
        return "no nodes"
    listed = [_offer(node) for node in nodes[:_LISTED]]
    more = len(nodes) - len(listed)
    return "; ".join([*listed, *([f"and {more} more nodes"] if more else [])])


def _offer(node: Node) -> str:
    free = "" if node.free is None else f", {node.free:g} free"
    return f"{node.name} with {node.cpus:g} CPU{'' if node.cpus == 1 else 's'}{free}"
