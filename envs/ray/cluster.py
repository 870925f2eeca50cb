"""A Ray cluster whose nodes run engines, while the learner stays one process on one of them.

Joining a Ray cluster within a bounded time; Ray itself tries for minutes.
"""

from __future__ import annotations

import itertools
import logging
import math
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any

from mlagents_envs.exception import UnityEnvironmentException

from ..errors import ClusterError, NoRoomError
from ..remote.address import split_address
from ..remote.tls import NoCryptographyError, require_cryptography
from ..unity.connection import EngineConnection
from .driver_process import CallFailedError, DriverProcess
from .nodes import Node, offers, room
from .remote_engine import RemoteEngine
from .rendezvous import Meeting, arrival
from .spec import ClusterSettings, EngineOrder, Order, check_seconds

logger = logging.getLogger(__name__)

_ANSWER_SECONDS = 20.0
"""Of a question about nodes."""
_MORE_SECONDS = 30.0
"""What the driver has beyond what it gives the nodes."""
_GROWING_SECONDS = 2.0
_REMINDER_SECONDS = 300.0


class Cluster:
    """Brings engines up on the nodes of a Ray cluster. Close it when all of them are closed.

    Args:
        settings: Which cluster.
        example: An engine as they will be, which is looked for on all nodes.
        number: How many there will be.

    Raises:
        ClusterError: The package is missing, nobody answers, there is too little room, or nodes cannot run
            the engine or reach this machine. Nothing is left running then.
    """

    def __init__(self, settings: ClusterSettings, example: EngineOrder, number: int) -> None:
        require_packages()
        self._settings = settings
        self._numbers = itertools.count()
        self._engines: dict[str, RemoteEngine] = {}
        self._ran: set[int] = set()
        """The environments that have had room before."""
        self._lock = threading.Lock()
        self._closed = False
        with ExitStack() as undo:
            self._driver, found = join(settings.address, self._on_event)
            undo.callback(self._driver.close)
            nodes = self._await_room([Node(**node) for node in found["nodes"]], number)
            alone = settings.wait == 0 and all(node.address == found["address"] for node in nodes)
            self._meeting = Meeting(found["address"], alone, settings.listen)
            undo.callback(self._meeting.close)
            self._check(example, nodes)
            undo.pop_all()
        logger.info("The Ray cluster: %s.", offers(nodes))

    def connect(self, wanted: EngineOrder, name: str, on_exit: Callable[[], None]) -> EngineConnection:
        """Bring an engine up on a node, and wait until it calls.

        An environment that has run before waits for room as long as it takes.

        Args:
            wanted: Which engine.
            name: How messages call its environment.
            on_exit: Called, from another thread, when there is something new to know of its end.

        Raises:
            ClusterError: The cluster is gone, or has no room for an environment that never ran.
            UnityEnvironmentException: The node cannot start the engine, or it ended.
            HostLostError: The node was lost meanwhile.
            UnityTimeOutException: The engine did not call in time.
        """
        driver = self._living_driver()
        key = f"env-{wanted.worker_id}-{next(self._numbers)}"
        engine = RemoteEngine(key, name, driver, on_exit)
        with self._meeting.expect(wanted, key) as (expected, order):
            self._engines[key] = engine
            try:
                self._place(driver, engine, order, wanted, name)
                arrived = arrival(expected, engine, wanted.timeout, name)
            except BaseException:
                self._engines.pop(key, None)
                engine.kill()
                raise
        self._ran.add(wanted.worker_id)
        return arrived.connection(name, wanted.timeout, engine)

    def close(self) -> None:
        """Leave the cluster; what still runs there is ended."""
        if not self._closed:
            self._closed = True
            self._meeting.close()
            self._driver.close()

    def _living_driver(self) -> DriverProcess:
        """The driver; a new one, if Ray has ended the old one and the cluster is there again."""
        with self._lock:
            if not self._driver.alive and not self._closed:
                logger.warning("The connection to the Ray cluster is lost; joining it again.")
                self._driver, _ = join(self._settings.address, self._on_event)
                if self._closed:  # meanwhile; `close` may have met the old driver only
                    self._driver.close()
                    raise ClusterError("The connection to the Ray cluster was closed.")
            return self._driver

    def _on_event(self, event: dict[str, Any]) -> None:
        """What a driver tells, in its thread; its own end concerns all engines that it has brought up."""
        if "key" not in event:
            concerned = list(self._engines.values())
        else:
            engine = self._engines.pop(event["key"], None)  # `connect` may drop it at the same time
            concerned = [] if engine is None else [engine]
        for engine in concerned:
            engine.tell(event)

    def _await_room(self, nodes: list[Node], number: int) -> list[Node]:
        """The nodes, once they have room for all environments."""
        cpus, wait = self._settings.cpus, self._settings.wait
        deadline = time.monotonic() + wait
        if room(nodes, cpus) < number and wait > 0:
            logger.info("Waiting for the Ray cluster to have room for %d environments.", number)
            self._ask("wish", _ANSWER_SECONDS, number=number, cpus=cpus)
        while (fits := room(nodes, cpus)) < number:
            if time.monotonic() >= deadline:
                raise ClusterError(
                    f"The Ray cluster has room for {fits} environments of {cpus:g} CPU (--ray-cpus), and "
                    f"{number} are wanted. There are {offers(nodes)}. Add nodes, want fewer (--num-envs), "
                    "give each less, or, where the cluster grows by itself, some seconds for that "
                    "(--ray-wait)."
                )
            time.sleep(_GROWING_SECONDS)
            nodes = [Node(**node) for node in self._ask("nodes", _ANSWER_SECONDS)["nodes"]]
        return nodes

    def _ask(self, what: str, timeout: float, **arguments: object) -> Any:
        """Call the driver while the run starts."""
        try:
            return self._driver.call(what, timeout, **arguments)
        except (TimeoutError, CallFailedError) as error:
            why = " ".join(str(error).split())
            raise ClusterError(f"The nodes of the Ray cluster do not answer: {why}") from error

    def _check(self, example: EngineOrder, nodes: Sequence[Node]) -> None:
        """Look on the nodes that may get environments whether the engine is there and reaches us."""
        takers = [node for node in nodes if node.room(self._settings.cpus)]
        with ExitStack() as expecting:
            orders = [
                expecting.enter_context(self._meeting.expect(example, f"check-{index}"))[1].as_dict()
                for index in range(len(takers))
            ]
            patience = check_seconds(example.file_name)
            faults = self._ask(
                "check",
                patience + _MORE_SECONDS,
                orders=orders,
                cpus=self._settings.cpus,
                patience=patience,
            )
        if faults:
            more = f" (So it is with {len(faults) - 1} more nodes.)" if len(faults) > 1 else ""
            raise ClusterError(f"On {' '.join(faults[0].split())}{more}")

    def _place(
        self, driver: DriverProcess, engine: RemoteEngine, order: Order, wanted: EngineOrder, name: str
    ) -> None:
        """Have a node take the engine."""
        patience = wanted.timeout + self._settings.wait
        reminded = -math.inf
        while True:
            try:
                engine.node, log = self._placed(
                    driver, engine.key, order, patience, wanted.starting_seconds, name
                )
                break
            except NoRoomError as error:
                why = (
                    f"No node of the Ray cluster has taken {name} within {patience:g} s, which needs "
                    f"{self._settings.cpus:g} CPU (--ray-cpus). There are {error}"
                )
            if wanted.worker_id not in self._ran:
                raise ClusterError(why)
            if time.monotonic() - reminded > _REMINDER_SECONDS:
                logger.warning("%s. It waits for room, while the others go on.", why)
                reminded = time.monotonic()
        where = "" if log is None else f"; its log is {log} there"
        logger.info("%s runs on %s%s.", name[:1].upper() + name[1:], engine.node.name, where)

    def _placed(
        self, driver: DriverProcess, key: str, order: Order, patience: float, starting: float, name: str
    ) -> tuple[Node, str | None]:
        """The node that has taken it, and the path of its log there."""
        told = {"key": key, "order": order.as_dict(), "cpus": self._settings.cpus}
        limit = patience + starting + _ANSWER_SECONDS
        try:
            placed = driver.call("place", limit, **told, patience=patience, starting=starting)
        except TimeoutError:
            raise ClusterError(f"{name}: the Ray cluster does not answer. Is its head gone?") from None
        except CallFailedError as error:
            raise UnityEnvironmentException(f"{name}: on {error}") from None
        return Node(**placed["node"]), placed["log"]


JOIN_SECONDS = 30.0
START_SECONDS = 120.0
"""What a new cluster on this machine has to start."""
_DIAL_SECONDS = 5.0


def require_packages() -> None:
    """Find out whether Ray can be used here.

    Raises:
        ClusterError: A package is missing.
    """
    if find_spec("ray") is None:
        raise ClusterError("--ray needs the package ray, which is not installed: pip install 'lanista[ray]'")
    try:
        require_cryptography()
    except NoCryptographyError as error:
        raise ClusterError(
            "--ray needs the package cryptography, which is not installed: pip install 'lanista[ray]'"
        ) from error


def join(
    address: str, on_event: Callable[[dict[str, Any]], None], seconds: float | None = None
) -> tuple[DriverProcess, dict[str, Any]]:
    """Start Ray's driver and let it join.

    Args:
        address: `auto`, `local`, or HOST:PORT.
        on_event: See `DriverProcess`.
        seconds: After which the cluster is given up; None for what is usual.

    Returns:
        The driver, and what it has found: `address` of this machine in the cluster, and `nodes`.

    Raises:
        ClusterError: Nobody answers there, or no Ray; or this machine is no node of it.
    """
    if seconds is None:
        seconds = START_SECONDS if address == "local" else JOIN_SECONDS
    if address not in ("auto", "local"):
        _dial(address)
    driver = DriverProcess(on_event)
    try:
        return driver, driver.call("connect", seconds, address=address)
    except TimeoutError:
        told = "has not started" if address == "local" else "did not answer as Ray's head does"
        why = f"it {told} within {seconds:g} s" + ("" if address == "local" else "; has it ended?")
    except (CallFailedError, ClusterError) as error:
        why = " ".join(str(error).split())
    except BaseException:
        driver.close(0.0)
        raise
    driver.close(0.0)
    raise ClusterError(f"The Ray cluster {address!r} (--ray) cannot be joined: {why}")


def _dial(address: str) -> None:
    """Whether anybody listens at the head's address."""
    if "://" in address:
        raise ClusterError(
            f"--ray: found {address!r}; the learner runs on a node of the cluster: give auto there, or the "
            "head's HOST:PORT. `ray start --address HOST:PORT --num-cpus 0` makes a node of this machine"
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
