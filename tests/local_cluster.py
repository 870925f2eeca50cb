"""A Ray cluster of several nodes on this machine, whose nodes can be killed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
_TRIES = 3
CRASHING_ENGINE = """\
greet()
ask(message(observation(1.0, 0.5)))
print("the disk is full", flush=True)
os._exit(7)
"""
"""A script for `scripted_engine.executable`."""


class LocalCluster:
    """A head and more nodes; the head, too, runs environments.

    Args:
        nodes: How many, the head included.
        cpus: Processors that each node reports, whatever the machine has.
    """

    def __init__(self, nodes: int, cpus: float) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": cpus, "include_dashboard": False}
        self._cluster = _retry(lambda: Cluster(initialize_head=True, head_node_args=head))
        self.cpus = cpus
        self.address: str = self._cluster.address
        self.nodes: list[object] = []
        """All but the head."""
        for _ in range(nodes - 1):
            self.add_node()

    def add_node(self) -> None:
        """One more."""
        self.nodes.append(_retry(lambda: self._cluster.add_node(num_cpus=self.cpus)))

    def kill_node(self, node: object) -> None:
        """All of its processes at once, as when its machine loses power."""
        kill_tree(self.raylet(node))
        self.nodes.remove(node)

    def kill_head(self) -> None:
        """The head's own service; its node continues for a while."""
        for info in self._cluster.head_node.all_processes["gcs_server"]:
            psutil.Process(info.process.pid).kill()

    def raylet(self, node: object) -> psutil.Process:
        """Ray's own process of a node, whose children are its workers and their engines."""
        return psutil.Process(node.all_processes["raylet"][0].process.pid)

    def engines(self, node: object) -> list[psutil.Process]:
        """The engines that run on a node."""
        return [each for each in descendants(self.raylet(node)) if is_engine(each)]

    def all_engines(self) -> list[psutil.Process]:
        """Those of all nodes, the head's included."""
        return [engine for node in [self._cluster.head_node, *self.nodes] for engine in self.engines(node)]

    def close(self) -> None:
        """End all nodes."""
        self._cluster.shutdown()


def _retry(start):
    """Start a node; Ray gives it half a minute, which is sometimes too little on a busy machine."""
    for _ in range(_TRIES - 1):
        try:
            return start()
        except Exception as error:
            if "timed out" not in str(error):
                raise
    return start()


@contextmanager
def local_cluster(nodes: int = 3, cpus: float = 2) -> Iterator[LocalCluster]:
    """A cluster for as long as this is open."""
    cluster = LocalCluster(nodes, cpus)
    try:
        yield cluster
    finally:
        cluster.close()


def descendants(process: psutil.Process) -> list[psutil.Process]:
    """Its children and theirs."""
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def is_engine(process: psutil.Process) -> bool:
    """Whether it is an engine, not a shell around it."""
    try:
        line = process.cmdline()
        return "--mlagents-port" in line or any(each.startswith("--env_seed=") for each in line)
    except psutil.Error:
        return False


def kill_tree(process: psutil.Process) -> None:
    """Kill a process and all below it."""
    for each in [process, *descendants(process)]:
        try:
            each.kill()
        except psutil.NoSuchProcess:
            continue
