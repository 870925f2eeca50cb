"""An engine on a node, as the process of its connection."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..engines.engine_errors import EngineError, EngineErrors
from ..errors import ClusterError
from ..manager.restarts import HostLostError
from .driver_process import CallFailedError, DriverProcess
from .nodes import Node

INQUIRY_SECONDS = 15.0
END_SECONDS = 10.0
_STATE_SECONDS = 5.0


class RemoteEngine:
    """The state of an engine on another machine, and how to kill it.

    Args:
        key: The engine's key in the driver.
        name: The environment's name in messages.
        driver: Inquires about the engine, and kills it.
        on_exit: Called from another thread when there is news about the engine.
        errors: Where the errors that the engine prints are counted; None: only here.
    """

    def __init__(
        self,
        key: str,
        name: str,
        driver: DriverProcess,
        on_exit: Callable[[], None],
        errors: EngineErrors | None = None,
    ) -> None:
        self.key = key
        self._name = name
        self._driver = driver
        self._on_exit = on_exit
        self.node: Node | None = None
        """The node on which the engine runs; set when that is known."""
        self._ended = threading.Event()
        self._report: dict[str, Any] | None = None
        self._why = ""
        """The reason why nothing more is known."""
        self._lost = False
        self._inquired = threading.Event()
        self._inquiring = False
        self._lock = threading.Lock()
        self._errors = errors or EngineErrors()
        self._first: list[EngineError] = []
        self._counted: Counter[EngineError] = Counter()

    @property
    def returncode(self) -> int | None:
        """The engine's exit code; None while it runs, or if not known."""
        report = self._report
        return None if report is None else report["returncode"]

    @property
    def gone(self) -> bool:
        """Whether the engine, or its actor, has ended."""
        return self._ended.is_set()

    @property
    def rejection(self) -> str:
        """Why the last program that called on the node was turned away, as far as known; empty if none."""
        return "" if self._report is None else str(self._report["rejection"])

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds until the engine has ended; return whether it has."""
        return self._ended.wait(timeout)

    def kill(self) -> None:
        """Kill the engine and its actor. If the driver is gone, Ray has done so."""
        with suppress(ClusterError, CallFailedError, TimeoutError):
            self._driver.call("end", END_SECONDS, key=self.key)
        self._ended.set()

    def output(self) -> str:
        """The last lines that the engine has written so far. Nothing is concluded from the answer."""
        with suppress(ClusterError, CallFailedError, TimeoutError):
            found = self._driver.call("inquire", _STATE_SECONDS, key=self.key, ending=False)
            return str(found["report"]["text"]) if "report" in found else ""
        return ""

    def errors(self) -> Sequence[EngineError]:
        """The first of each kind of error that the engine has printed, as far as its node has told."""
        return self._first

    def describe(self, called: bool = True) -> str:
        """The engine's state or how it ended, with its last output and its node."""
        if not (self._ended.is_set() or self._inquired.is_set()):
            self._inquire()
            self._inquired.wait(_STATE_SECONDS)
        where = f"It ran on {self.node.name}" if self.node is not None else "No node has reported it"
        if self._lost:
            return f"{where}, which cannot be reached any more."
        report = self._report
        return f"{where}. {report['text'] if report is not None else self._why or 'Nothing more is known.'}"

    def is_diagnosed(self) -> bool:
        """Whether the inquiry about the engine is complete; starts the inquiry, and does not wait."""
        if self._ended.is_set() or self._inquired.is_set():
            return True
        self._inquire()
        return False

    def external_error(self) -> HostLostError | None:
        """The error to raise if the engine's node is gone, so that the engine is not to blame; else None."""
        if not self._lost:
            return None
        where = "its node" if self.node is None else self.node.name
        return HostLostError(f"{self._name}: {where} cannot be reached any more, or has lost its cluster.")

    def handle_event(self, event: dict[str, Any]) -> None:
        """Handle an event of the driver."""
        if event["event"] == "errors":
            self._count(event["errors"])
        elif event["event"] == "ended":
            self._set_report(event["report"])
        elif event["event"] != "end" or not self._driver.alive:
            # Its actor or the driver is gone: find out what happened to the node.
            self._inquire()

    def _set_report(self, report: dict[str, Any]) -> None:
        self._report = report
        self._count(report["errors"])
        if report["returncode"] is not None:
            self._ended.set()
        self._inquired.set()
        self._on_exit()

    def _count(self, errors: Sequence[dict[str, Any]]) -> None:
        """Count the errors that the node has counted since it told of them last."""
        with self._lock:
            for each in errors:
                log = None if each["log"] is None else Path(each["log"])
                error = EngineError(
                    each["engine"], self._name, each["text"], each["place"], log, each["is_warning"]
                )
                new = each["count"] - self._counted[error]
                if new > 0:
                    if not self._counted[error]:
                        self._first.append(error)
                    self._counted[error] += new
                    self._errors.add(error, new)

    def _inquire(self) -> None:
        """Start the inquiry in another thread, once."""
        with self._lock:
            if self._inquiring:
                return
            self._inquiring = True
        threading.Thread(target=self._ask, name=f"inquiry after {self._name}", daemon=True).start()

    def _ask(self) -> None:
        try:
            found = self._driver.call("inquire", INQUIRY_SECONDS, key=self.key, ending=True)
        except (ClusterError, CallFailedError, TimeoutError) as error:
            # Without the driver its actors have ended; the engine is not to blame.
            found = {"lost": True}
            self._why = str(error)
        if "report" in found:
            self._set_report(found["report"])
            return
        self._lost = "lost" in found
        if not self._lost:
            self._why = f"Its Ray actor ended while the node lives: {found['died']}"
        self._ended.set()
        self._inquired.set()
        self._on_exit()
        # The node may only be unreachable for a while: leave nothing running on it.
        with suppress(ClusterError, CallFailedError, TimeoutError):
            self._driver.call("end", END_SECONDS, key=self.key)
