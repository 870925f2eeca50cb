"""Engines as Ray actors, seen from the driver's process. Imported there alone: it needs Ray."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from .nodes import Node, offers, there
from .spec import downloaded

REPORT_SECONDS = 5.0
"""What an actor has to tell how its engine is; it lets the engine end first."""
END_SECONDS = 3.0
_THREADS = 4
"""Calls that an actor answers at once: one waits for the engine's end."""
_AGAIN_SECONDS = 0.5

Tell = Callable[[dict[str, Any]], None]


class RefusedCallError(Exception):
    """What the learner is told; `kind` says what it makes of it."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class _Placed:
    actor: Any
    node: Node


class Actors:
    """The actors of one learner, by keys of its own.

    Args:
        tell: Gets what happens to them: `{"event": "ended", "key": ..., "report": ...}` when an engine has,
            `{"event": "gone", "key": ...}` when its actor is.
    """

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._placed: dict[str, _Placed] = {}
        self._lost: set[str] = set()
        """Nodes that are gone, whatever Ray knows of it yet."""
        self._lock = threading.Lock()
        self._class = ray.remote(_engine_host())

    def nodes(self) -> list[Node]:
        """The nodes that are there; Ray may still count on one that is gone."""
        free = _free()
        found = [Node.from_ray(each, free) for each in ray.nodes() if each["Alive"]]
        answering = there(found)
        self._lost |= {node.id for node in found} - {node.id for node in answering}
        return answering

    def check(self, orders: Sequence[dict[str, Any]], cpus: float, patience: float) -> list[str]:
        """Look on each node that has room for an environment whether it could bring the engine up.

        Args:
            orders: One for each of these nodes.
            cpus: Processors of an environment.
            patience: Seconds that all of them have.

        Returns:
            Of each node that cannot, why.
        """
        nodes = [node for node in self.nodes() if node.room(cpus)]
        look = ray.remote(num_cpus=0, max_retries=0)(_check())
        asked = [
            (node, look.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, False)).remote(o))
            for node, o in zip(nodes, orders)
        ]
        ray.wait([answer for _, answer in asked], num_returns=len(asked), timeout=patience)
        late = f"it has not run a task within {patience:g} s"
        if any(downloaded(order["file_name"]) for order in orders):
            late += ", or still downloads the environment"
        return [fault for node, answer in asked if (fault := _fault(node, answer, late))]

    def place(
        self, key: str, order: dict[str, Any], cpus: float, patience: float, starting: float
    ) -> dict[str, Any]:
        """Bring an engine up on a node of Ray's choice.

        Args:
            key: How it is called from now on.
            order: As `Order.as_dict` gives it.
            cpus: Processors that it takes.
            patience: Seconds within which a node must have taken it.
            starting: Seconds that this node then has to start it.

        Returns:
            `node`, and `log`, the path of its log there, or None.

        Raises:
            RefusedCallError: No node has taken it (`no room`), or that node cannot start it (`failed`).
        """
        deadline = time.monotonic() + patience
        while True:
            actor = self._class.options(**self._options(cpus)).remote()
            node: Node | None = None
            try:
                taken = ray.get(actor.node.remote(), timeout=max(0.1, deadline - time.monotonic()))
                node = self._node(taken)
                answer = ray.get(actor.start.remote(order), timeout=starting)
            except GetTimeoutError:
                _kill(actor)
                if node is None:
                    raise RefusedCallError("no room", offers(self.nodes())) from None
                late = f"{node.name}: it has not started the engine within {starting:g} s"
                raise RefusedCallError("failed", late) from None
            except RayActorError as error:  # its node died with it, or before it
                _kill(actor)
                if time.monotonic() > deadline:
                    raise RefusedCallError("failed", _first_line(error)) from None
                time.sleep(_AGAIN_SECONDS)
                continue
            if "fault" in answer:
                _kill(actor)
                raise RefusedCallError("failed", f"{node.name}: {answer['fault']}")
            self._keep(key, _Placed(actor, node))
            return {"node": node.as_dict(), "log": answer["log"]}

    def inquire(self, key: str) -> dict[str, Any]:
        """What has become of an engine: `report`, or `lost` if its node is gone, or `died` if its actor is.

        Takes some seconds.
        """
        placed = self._placed.get(key)
        if placed is None:
            return {"died": "its actor was ended"}
        if placed.node.id in self._lost or not placed.node.answers():
            self._lost.add(placed.node.id)
            return {"lost": True}
        try:
            return {"report": ray.get(placed.actor.report.remote(), timeout=REPORT_SECONDS)}
        except RayError as error:  # a timeout, too
            if placed.node.goes_on_answering():
                return {"died": _first_line(error)}
            self._lost.add(placed.node.id)
            return {"lost": True}

    def end(self, key: str) -> None:
        """End an engine and its actor, by force. One that is not known has ended already."""
        with self._lock:
            placed = self._placed.pop(key, None)
        if placed is None:
            return
        if placed.node.id not in self._lost:
            with suppress(RayError):
                ray.get(placed.actor.end.remote(), timeout=END_SECONDS)
        _kill(placed.actor)

    def end_all(self) -> None:
        """End all of them, side by side."""
        threads = [threading.Thread(target=self.end, args=(key,), daemon=True) for key in list(self._placed)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(END_SECONDS + 1.0)

    def _keep(self, key: str, placed: _Placed) -> None:
        with self._lock:
            self._placed[key] = placed
        threading.Thread(target=self._attend, args=(key, placed), name=f"end of {key}", daemon=True).start()

    def _attend(self, key: str, placed: _Placed) -> None:
        """Tell when an engine has ended; its actor has nothing to do then."""
        try:
            report = ray.get(placed.actor.await_end.remote())
        except RayError:
            self._tell({"event": "gone", "key": key})
            return
        self._tell({"event": "ended", "key": key, "report": report})
        with self._lock:
            self._placed.pop(key, None)
        _kill(placed.actor)

    def _node(self, node_id: str) -> Node:
        return next(Node.from_ray(each, {}) for each in ray.nodes() if each["NodeID"] == node_id)

    def _options(self, cpus: float) -> dict[str, Any]:
        options = {
            "num_cpus": cpus,
            "scheduling_strategy": "SPREAD",
            "max_restarts": 0,
            "max_concurrency": _THREADS,
        }
        # Ray may go on for half a minute to give actors to a node that is gone.
        gone = sorted(node.id for node in self._still_lost())
        if gone:
            options["label_selector"] = {"ray.io/node-id": f"!in({','.join(gone)})"}
        return options

    def _still_lost(self) -> list[Node]:
        """The lost nodes that Ray counts on; one that answers again is none any more."""
        found = [
            Node.from_ray(each, {}) for each in ray.nodes() if each["Alive"] and each["NodeID"] in self._lost
        ]
        answering = {node.id for node in there(found)}
        self._lost -= answering
        return [node for node in found if node.id not in answering]


def _engine_host() -> type:
    """The actor's class. Made here so that Ray sends its code: a node without Lanista can say so then."""

    class EngineHost:
        """Brings one engine up; see `host.Host`."""

        def node(self) -> str:
            """Where it is, by Ray's name."""
            return str(ray.get_runtime_context().get_node_id())

        def start(self, order: dict[str, Any]) -> dict[str, Any]:
            """`fault` or `log`."""
            try:
                host = importlib.import_module("lanista.envs.ray.node_agent")
                made = importlib.import_module("lanista.envs.ray.spec").Order(**order)
                self._host = host.Host(made)
            except ImportError as error:
                return {"fault": f"Lanista cannot be imported there ({error}): install it on all nodes"}
            except Exception as error:
                return {"fault": str(error)}
            return {"log": None if self._host.log is None else str(self._host.log)}

        def report(self) -> Any:
            return self._host.report()

        def await_end(self) -> Any:
            return self._host.await_end()

        def end(self) -> None:
            self._host.end()

    return EngineHost


def _check() -> Callable[[dict[str, Any]], str | None]:
    """The function that looks on a node; see `_engine_host`."""

    def look(order: dict[str, Any]) -> str | None:
        try:
            host = importlib.import_module("lanista.envs.ray.node_agent")
            host.check(importlib.import_module("lanista.envs.ray.spec").Order(**order))
        except ImportError as error:
            return f"Lanista cannot be imported there ({error}): install it on all nodes"
        except Exception as error:
            return str(error)
        return None

    return look


def _fault(node: Node, answer: Any, late: str) -> str | None:
    """Why it cannot; `late` where it has not answered."""
    try:
        fault = ray.get(answer, timeout=0.1)
    except GetTimeoutError:
        fault = late
    except RayError as error:
        if not node.answers():  # it has gone meanwhile, and will get no environment
            return None
        fault = f"nothing can be run there: {_first_line(error)}"
    return None if fault is None else f"{node.name}: {fault}"


def _free() -> dict[str, dict[str, float]]:
    """What is free on each node; nothing where this version of Ray does not tell."""
    try:
        from ray._private.state import available_resources_per_node
    except ImportError:
        return {}
    found: dict[str, dict[str, float]] = available_resources_per_node()
    return found


def _kill(actor: Any) -> None:
    with suppress(RayError):
        ray.kill(actor, no_restart=True)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
