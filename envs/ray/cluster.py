"""A Ray cluster whose nodes run engines, while the learner is one process on one of them."""

from __future__ import annotations

import itertools
import logging
import math
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from mlagents_envs.exception import UnityEnvironmentException

from ..engines.address import split_address
from ..engines.connection import EngineConnection
from ..engines.options import EngineOptions
from ..errors import ClusterError, NoRoomError
from ..hosting.source import hosted
from ..remote.tls import NoCryptographyError, require_cryptography
from ..utils.installation import install_command
from .driver_process import CallFailedError, DriverProcess
from .nodes import ClusterSettings, LaunchSpec, Node, check_seconds, describe_nodes, room, start_seconds
from .remote_engine import RemoteEngine
from .rendezvous import Rendezvous, await_engine

logger = logging.getLogger(__name__)

_ANSWER_SECONDS = 20.0
"""Seconds that the driver has to answer a query about nodes."""
_MARGIN_SECONDS = 30.0
"""Seconds that the driver gets in addition to the nodes' time."""
_POLL_SECONDS = 2.0
_REMINDER_SECONDS = 300.0


class Cluster:
    """Launches engines on the nodes of a Ray cluster. Close it after all of them are closed.

    Args:
        settings: Which cluster.
        example: An engine like the later ones, which is checked on all nodes.
        number: How many environments there will be.

    Raises:
        ClusterError: The package is missing, there is no cluster, there is too little room, or nodes cannot
            run the engine or reach this machine. Nothing is left running then.
    """

    def __init__(self, settings: ClusterSettings, example: EngineOptions, number: int) -> None:
        require_packages()
        self._settings = settings
        self._counter = itertools.count()
        self._engines: dict[str, RemoteEngine] = {}
        self._seen: set[int] = set()
        """The indices of environments that have been placed before."""
        self._lock = threading.Lock()
        self._closed = False
        with ExitStack() as undo:
            self._driver, found = join(settings.address, self._on_event)
            undo.callback(self._driver.close)
            nodes = self._await_room([Node(**node) for node in found["nodes"]], number)
            alone = settings.wait == 0 and all(node.address == found["address"] for node in nodes)
            self._rendezvous = Rendezvous(found["address"], alone, settings.listen)
            undo.callback(self._rendezvous.close)
            self._check(example, nodes)
            undo.pop_all()
        logger.info("The Ray cluster: %s.", describe_nodes(nodes))

    def connected(self, options: EngineOptions) -> EngineOptions:
        """The options of an environment whose engine a node of the cluster launches."""
        launched = hosted(options) if options.hosted else options
        return replace(options, connect=lambda on_exit: self.connect(launched, on_exit))

    def connect(self, options: EngineOptions, on_exit: Callable[[], None]) -> EngineConnection:
        """Launch an engine on a node, and wait until it connects.

        An environment that has run before waits for room without a limit.

        Args:
            options: Which engine.
            on_exit: Called from another thread when there is news about the engine's end.

        Raises:
            ClusterError: The cluster is gone, or has no room for an environment that has never run.
            UnityEnvironmentException: The node cannot start the engine, or it ended.
            HostLostError: The node was lost.
            UnityTimeOutException: The engine did not connect in time.
        """
        driver = self._connected_driver()
        key = f"env-{options.worker_id}-{next(self._counter)}"
        engine = RemoteEngine(key, options.name, driver, on_exit, options.errors)
        with self._rendezvous.expect(options, key) as (expected, launch_spec):
            self._engines[key] = engine
            try:
                self._place(driver, engine, launch_spec, options)
                arrived = await_engine(expected, engine, options)
            except BaseException:
                self._engines.pop(key, None)
                engine.kill()
                raise
        self._seen.add(options.worker_id)
        return arrived.connection(options.name, options.timeout_wait, engine, windowless=options.windowless)

    def close(self) -> None:
        """Leave the cluster; engines that still run there are killed."""
        if not self._closed:
            self._closed = True
            self._rendezvous.close()
            self._driver.close()

    def _connected_driver(self) -> DriverProcess:
        """The driver; a new one if Ray has killed the old one and the cluster is reachable again."""
        with self._lock:
            if not self._driver.alive and not self._closed:
                logger.warning("The connection to the Ray cluster is lost; rejoining it.")
                self._driver, _ = join(self._settings.address, self._on_event)
                if self._closed:  # `close` may have closed the old driver only
                    self._driver.close()
                    raise ClusterError("The connection to the Ray cluster was closed.")
            return self._driver

    def _on_event(self, event: dict[str, Any]) -> None:
        """Handle an event of a driver, in its thread; the driver's end concerns all its engines."""
        if "key" not in event:
            concerned = list(self._engines.values())
        elif event["event"] == "errors":
            concerned = [self._engines[event["key"]]] if event["key"] in self._engines else []
        else:
            engine = self._engines.pop(event["key"], None)  # `connect` may drop it at the same time
            concerned = [] if engine is None else [engine]
        for engine in concerned:
            engine.handle_event(event)

    def _await_room(self, nodes: list[Node], number: int) -> list[Node]:
        """Wait until the nodes have room for all environments; return the nodes."""
        cpus, wait = self._settings.cpus, self._settings.wait
        deadline = time.monotonic() + wait
        if room(nodes, cpus) < number and wait > 0:
            logger.info("Waiting for the Ray cluster to have room for %d environments.", number)
            self._ask("request_resources", _ANSWER_SECONDS, number=number, cpus=cpus)
        while (fits := room(nodes, cpus)) < number:
            if time.monotonic() >= deadline:
                raise ClusterError(
                    f"The Ray cluster has room for {fits} environments of {cpus:g} CPU (--ray-cpus), but "
                    f"{number} are wanted. There are {describe_nodes(nodes)}. Add nodes, want fewer "
                    "(--num-envs), give each less, or, if the cluster autoscales, some seconds for that "
                    "(--ray-wait)."
                )
            time.sleep(_POLL_SECONDS)
            nodes = [Node(**node) for node in self._ask("nodes", _ANSWER_SECONDS)["nodes"]]
        return nodes

    def _ask(self, what: str, timeout: float, **arguments: object) -> Any:
        """Call the driver, while the run starts."""
        try:
            return self._driver.call(what, timeout, **arguments)
        except (TimeoutError, CallFailedError) as error:
            why = " ".join(str(error).split())
            raise ClusterError(f"The nodes of the Ray cluster do not answer: {why}") from error

    def _check(self, example: EngineOptions, nodes: Sequence[Node]) -> None:
        """Check on the nodes with room that the engine exists and can reach this machine."""
        candidates = [node for node in nodes if node.room(self._settings.cpus)]
        with ExitStack() as expecting:
            specs = [
                expecting.enter_context(self._rendezvous.expect(example, f"check-{index}"))[1].as_dict()
                for index in range(len(candidates))
            ]
            timeout = check_seconds(str(example.path))
            faults = self._ask(
                "check",
                timeout + _MARGIN_SECONDS,
                specs=specs,
                cpus=self._settings.cpus,
                check_timeout=timeout,
            )
        if faults:
            more = f" (The same holds for {len(faults) - 1} more nodes.)" if len(faults) > 1 else ""
            raise ClusterError(f"On {' '.join(faults[0].split())}{more}")

    def _place(
        self,
        driver: DriverProcess,
        engine: RemoteEngine,
        launch_spec: LaunchSpec,
        options: EngineOptions,
    ) -> None:
        """Place the engine on a node."""
        name, timeout = options.name, options.timeout_wait + self._settings.wait
        reminded = -math.inf
        while True:
            try:
                engine.node, log = self._call_place(
                    driver, engine.key, launch_spec, timeout, start_seconds(options), name
                )
                break
            except NoRoomError as error:
                why = (
                    f"No node of the Ray cluster has accepted {name} within {timeout:g} s, which needs "
                    f"{self._settings.cpus:g} CPU (--ray-cpus). There are {error}"
                )
            if options.worker_id not in self._seen:
                raise ClusterError(why)
            if time.monotonic() - reminded > _REMINDER_SECONDS:
                logger.warning("%s. It waits for room, while the others continue.", why)
                reminded = time.monotonic()
        where = "" if log is None else f"; its log is {log} there"
        logger.info("%s runs on %s%s.", name[:1].upper() + name[1:], engine.node.name, where)

    def _call_place(
        self,
        driver: DriverProcess,
        key: str,
        launch_spec: LaunchSpec,
        timeout: float,
        start_timeout: float,
        name: str,
    ) -> tuple[Node, str | None]:
        """Call the driver; return the node and the path of the engine's log there."""
        engine = {"key": key, "spec": launch_spec.as_dict(), "cpus": self._settings.cpus}
        limit = timeout + start_timeout + _ANSWER_SECONDS
        try:
            placed = driver.call("place", limit, **engine, place_timeout=timeout, start_timeout=start_timeout)
        except TimeoutError:
            raise ClusterError(f"{name}: the Ray cluster does not answer. Is its head gone?") from None
        except CallFailedError as error:
            raise UnityEnvironmentException(f"{name}: on {error}") from None
        return Node(**placed["node"]), placed["log"]


JOIN_SECONDS = 30.0
START_SECONDS = 120.0
"""Seconds that a new cluster on this machine has to start."""
_DIAL_SECONDS = 5.0


def require_packages() -> None:
    """Check that Ray can be used here.

    Raises:
        ClusterError: A package is missing.
    """
    if find_spec("ray") is None:
        raise ClusterError(f"--ray needs the package ray, which is not installed: {install_command('ray')}")
    try:
        require_cryptography()
    except NoCryptographyError as error:
        raise ClusterError(
            f"--ray needs the package cryptography, which is not installed: {install_command('ray')}"
        ) from error


def join(
    address: str, on_event: Callable[[dict[str, Any]], None], seconds: float | None = None
) -> tuple[DriverProcess, dict[str, Any]]:
    """Start Ray's driver and join a cluster, within a bounded time; Ray itself tries for minutes.

    Args:
        address: `auto`, `local`, or HOST:PORT.
        on_event: See `DriverProcess`.
        seconds: The limit; None for the default.

    Returns:
        The driver, `address` of this machine in the cluster, and `nodes`.

    Raises:
        ClusterError: There is no Ray head, or this machine is not a node of its cluster.
    """
    if seconds is None:
        seconds = START_SECONDS if address == "local" else JOIN_SECONDS
    if address not in ("auto", "local"):
        _dial(address)
    driver = DriverProcess(on_event)
    try:
        return driver, driver.call("connect", seconds, address=address)
    except TimeoutError:
        outcome = "has not started" if address == "local" else "did not answer as Ray's head does"
        why = f"it {outcome} within {seconds:g} s" + ("" if address == "local" else "; has it ended?")
    except (CallFailedError, ClusterError) as error:
        why = " ".join(str(error).split())
    except BaseException:
        driver.close(0.0)
        raise
    driver.close(0.0)
    raise ClusterError(f"The Ray cluster {address!r} (--ray) cannot be joined: {why}")


def _dial(address: str) -> None:
    """Check that something listens at the head's address."""
    if "://" in address:
        raise ClusterError(
            f"--ray: found {address!r}; the learner runs on a node of the cluster: give auto there, or the "
            "head's HOST:PORT. `ray start --address HOST:PORT --num-cpus 0` makes this machine a node"
        )
    try:
        host, port = split_address(address)
    except ValueError as error:
        raise ClusterError(f"--ray: {error}") from error
    if port is None:
        raise ClusterError(f"--ray: found {address!r}; expected auto, local, or HOST:PORT of the head")
    try:
        socket.create_connection((host, port), _DIAL_SECONDS).close()
    except OSError as error:
        raise ClusterError(
            f"No Ray head answers at {address} (--ray): {error.strerror or error}. `ray start --head --port "
            f"{port}` starts one there; `ray status --address {address}` shows whether it runs"
        ) from error
