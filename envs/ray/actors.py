"""Engines as Ray actors, used by the driver's process only: it imports Ray."""

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

from .nodes import Node, describe_nodes, is_downloaded, reachable

REPORT_SECONDS = 5.0
"""Seconds that an actor has to report on its engine; the actor gives the engine time to exit first."""
END_SECONDS = 3.0
_ERRORS_SECONDS = 2.0
"""Seconds after which an engine's errors are asked for again."""
_THREADS = 4
"""The number of concurrent calls of an actor; one of them waits for the engine's end."""
_RETRY_SECONDS = 0.5

OnEvent = Callable[[dict[str, Any]], None]


class CallError(Exception):
    """A call that failed; the learner distinguishes failures by `kind`."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class _PlacedEngine:
    actor: Any
    node: Node


class EngineActors:
    """The actors of one learner, by the learner's own keys.

    Args:
        on_event: Called with `{"event": "ended", "key": ..., "report": ...}` when an engine has ended, with
            `{"event": "gone", "key": ...}` when its actor has died, and with `{"event": "errors", "key": ...,
            "errors": [...]}` when an engine has printed errors.
    """

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._engines: dict[str, _PlacedEngine] = {}
        self._lost: set[str] = set()
        """Nodes that do not respond, which Ray may not know yet."""
        self._lock = threading.Lock()
        self._class = ray.remote(_make_actor_class())

    def nodes(self) -> list[Node]:
        """The nodes that respond; Ray may still list others."""
        free = _free_resources()
        found = [Node.from_ray(each, free) for each in ray.nodes() if each["Alive"]]
        answering = reachable(found)
        self._lost |= {node.id for node in found} - {node.id for node in answering}
        return answering

    def check(self, specs: Sequence[dict[str, Any]], cpus: float, check_timeout: float) -> list[str]:
        """Check on each node with room for an environment whether it could launch the engine.

        Args:
            specs: `LaunchSpec` as a dict, one per node.
            cpus: Processors per environment.
            check_timeout: Seconds for all checks together.

        Returns:
            The reason for each node that cannot launch it.
        """
        nodes = [node for node in self.nodes() if node.room(cpus)]
        check = ray.remote(num_cpus=0, max_retries=0)(_make_check())
        asked = [
            (
                node,
                check.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, False)).remote(
                    spec
                ),
            )
            for node, spec in zip(nodes, specs)
        ]
        ray.wait([answer for _, answer in asked], num_returns=len(asked), timeout=check_timeout)
        late = f"it has not run a task within {check_timeout:g} s"
        if any(is_downloaded(spec["file_name"]) for spec in specs):
            late += ", or is still downloading the environment"
        return [fault for node, answer in asked if (fault := _result(node, answer, late))]

    def place(
        self, key: str, spec: dict[str, Any], cpus: float, place_timeout: float, start_timeout: float
    ) -> dict[str, Any]:
        """Launch an engine on a node that Ray chooses.

        Args:
            key: Identifies the engine from now on.
            spec: `LaunchSpec` as a dict.
            cpus: Processors that the engine takes.
            place_timeout: Seconds for a node to accept the engine.
            start_timeout: Seconds for this node to start the engine then.

        Returns:
            `node`, and `log`, the path of the engine's log there, or None.

        Raises:
            CallError: No node has accepted the engine (`no room`), or it cannot start there (`failed`).
        """
        deadline = time.monotonic() + place_timeout
        while True:
            actor = self._class.options(**self._options(cpus)).remote()
            node: Node | None = None
            try:
                taken = ray.get(actor.node.remote(), timeout=max(0.1, deadline - time.monotonic()))
                node = self._node(taken)
                answer = ray.get(actor.start.remote(spec), timeout=start_timeout)
            except GetTimeoutError:
                _kill(actor)
                if node is None:
                    raise CallError("no room", describe_nodes(self.nodes())) from None
                late = f"{node.name}: it has not started the engine within {start_timeout:g} s"
                raise CallError("failed", late) from None
            except RayActorError as error:  # its node died
                _kill(actor)
                if time.monotonic() > deadline:
                    raise CallError("failed", _first_line(error)) from None
                time.sleep(_RETRY_SECONDS)
                continue
            if "fault" in answer:
                _kill(actor)
                raise CallError("failed", f"{node.name}: {answer['fault']}")
            self._add(key, _PlacedEngine(actor, node))
            return {"node": node.as_dict(), "log": answer["log"]}

    def inquire(self, key: str, ending: bool) -> dict[str, Any]:
        """Find out an engine's state: `report`, or `lost` if its node is gone, or `died` if its actor is.

        Args:
            key: The engine's key.
            ending: Whether the engine's connection is gone. This takes some seconds then.
        """
        placed = self._engines.get(key)
        if placed is None:
            return {"died": "its actor was ended"}
        if placed.node.id in self._lost or not placed.node.answers():
            self._lost.add(placed.node.id)
            return {"lost": True}
        try:
            return {"report": ray.get(placed.actor.report.remote(ending), timeout=REPORT_SECONDS)}
        except RayError as error:  # a timeout, too
            if placed.node.keeps_answering():
                return {"died": _first_line(error)}
            self._lost.add(placed.node.id)
            return {"lost": True}

    def end(self, key: str) -> None:
        """Kill an engine and its actor; do nothing if the key is unknown."""
        with self._lock:
            placed = self._engines.pop(key, None)
        if placed is None:
            return
        if placed.node.id not in self._lost:
            with suppress(RayError):
                ray.get(placed.actor.end.remote(), timeout=END_SECONDS)
        _kill(placed.actor)

    def end_all(self) -> None:
        """Kill all engines and their actors, in parallel."""
        threads = [threading.Thread(target=self.end, args=(key,), daemon=True) for key in list(self._engines)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(END_SECONDS + 1.0)

    def _add(self, key: str, placed: _PlacedEngine) -> None:
        with self._lock:
            self._engines[key] = placed
        threading.Thread(target=self._watch, args=(key, placed), name=f"end of {key}", daemon=True).start()

    def _watch(self, key: str, placed: _PlacedEngine) -> None:
        """Wait for an engine's end, and kill its actor; report the end, and errors that it prints before."""
        known: list[dict[str, Any]] = []
        try:
            ended = placed.actor.await_end.remote()
            while not ray.wait([ended], timeout=_ERRORS_SECONDS)[0]:
                with suppress(GetTimeoutError):
                    errors = ray.get(placed.actor.errors.remote(), timeout=REPORT_SECONDS)
                    if errors != known:
                        self._on_event({"event": "errors", "key": key, "errors": errors})
                    known = errors
            report = ray.get(ended)
        except RayError:
            self._on_event({"event": "gone", "key": key})
            return
        self._on_event({"event": "ended", "key": key, "report": report})
        with self._lock:
            self._engines.pop(key, None)
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
        # Ray may keep assigning actors to a dead node for half a minute.
        gone = sorted(node.id for node in self._lost_nodes())
        if gone:
            options["label_selector"] = {"ray.io/node-id": f"!in({','.join(gone)})"}
        return options

    def _lost_nodes(self) -> list[Node]:
        """The lost nodes that Ray still lists; one that responds again is no longer lost."""
        found = [
            Node.from_ray(each, {}) for each in ray.nodes() if each["Alive"] and each["NodeID"] in self._lost
        ]
        answering = {node.id for node in reachable(found)}
        self._lost -= answering
        return [node for node in found if node.id not in answering]


def _make_actor_class() -> type:
    """The actor's class, local so that Ray pickles its code: a node without Lanista can then say so."""

    class EngineHost:
        """Launches one engine; see `node_agent.NodeAgent`."""

        def node(self) -> str:
            """The id that Ray gives to the node of this actor."""
            return str(ray.get_runtime_context().get_node_id())

        def start(self, spec: dict[str, Any]) -> dict[str, Any]:
            """Start the engine; return `fault` or `log`."""
            try:
                node_agent = importlib.import_module("lanista.envs.ray.node_agent")
                launch_spec = importlib.import_module("lanista.envs.ray.nodes").LaunchSpec(**spec)
                self._agent = node_agent.NodeAgent(launch_spec)
            except ImportError as error:
                return {"fault": f"Lanista cannot be imported there ({error}): install it on all nodes"}
            except Exception as error:
                return {"fault": str(error)}
            return {"log": None if self._agent.log is None else str(self._agent.log)}

        def report(self, ending: bool) -> Any:
            return self._agent.report(ending=ending)

        def errors(self) -> Any:
            return self._agent.errors()

        def await_end(self) -> Any:
            return self._agent.await_end()

        def end(self) -> None:
            self._agent.end()

    return EngineHost


def _make_check() -> Callable[[dict[str, Any]], str | None]:
    """Make the function that checks a node, local so that Ray pickles its code."""

    def check(spec: dict[str, Any]) -> str | None:
        try:
            node_agent = importlib.import_module("lanista.envs.ray.node_agent")
            node_agent.check(importlib.import_module("lanista.envs.ray.nodes").LaunchSpec(**spec))
        except ImportError as error:
            return f"Lanista cannot be imported there ({error}): install it on all nodes"
        except Exception as error:
            return str(error)
        return None

    return check


def _result(node: Node, answer: Any, late: str) -> str | None:
    """Why a node cannot launch the engine; `late` if it has not answered, None if it can."""
    try:
        fault = ray.get(answer, timeout=0.1)
    except GetTimeoutError:
        fault = late
    except RayError as error:
        if not node.answers():  # it is gone, and will get no environment
            return None
        fault = f"nothing can be run there: {_first_line(error)}"
    return None if fault is None else f"{node.name}: {fault}"


def _free_resources() -> dict[str, dict[str, float]]:
    """Free resources by node; empty if this version of Ray does not offer them."""
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
