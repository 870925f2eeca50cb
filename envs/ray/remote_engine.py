"""An engine on a node, as its connection sees it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ..errors import ClusterError
from ..manager.restarts import HostLostError
from .driver_process import CallFailedError, DriverProcess
from .nodes import Node

INQUIRY_SECONDS = 15.0
END_SECONDS = 10.0
_STATE_SECONDS = 5.0


class RemoteEngine:
    """What is known of an engine elsewhere, and how to end it.

    Args:
        key: How the driver calls it.
        name: How messages call its environment.
        driver: Who can ask after it.
        on_exit: Called, from another thread, when there is something new to know.
    """

    def __init__(self, key: str, name: str, driver: DriverProcess, on_exit: Callable[[], None]) -> None:
        self.key = key
        self._name = name
        self._driver = driver
        self._on_exit = on_exit
        self.node: Node | None = None
        """Where it is; set once that is known."""
        self._ended = threading.Event()
        self._report: dict[str, Any] | None = None
        self._why = ""
        """What keeps us from knowing more."""
        self._lost = False
        self._inquired = threading.Event()
        self._inquiring = False
        self._lock = threading.Lock()

    @property
    def returncode(self) -> int | None:
        """None while it runs, or where nothing is known; else its exit code."""
        report = self._report
        return None if report is None else report["returncode"]

    @property
    def gone(self) -> bool:
        """Whether it has ended, or its actor has."""
        return self._ended.is_set()

    def wait(self, timeout: float) -> bool:
        """Wait until it has ended, at most `timeout` seconds; whether it has."""
        return self._ended.wait(timeout)

    def kill(self) -> None:
        """End it and its actor at once. Where the driver is gone Ray has done so."""
        with suppress(ClusterError, CallFailedError, TimeoutError):
            self._driver.call("end", END_SECONDS, key=self.key)
        self._ended.set()

    def describe(self) -> str:
        """How it is, or how it ended, with the last lines that it wrote, and on which node."""
        if not (self._ended.is_set() or self._inquired.is_set()):
            self._inquire()
            self._inquired.wait(_STATE_SECONDS)
        where = f"It ran on {self.node.name}" if self.node is not None else "No node has told of it"
        if self._lost:
            return f"{where}, which cannot be reached any more."
        report = self._report
        return f"{where}. {report['text'] if report is not None else self._why or 'Nothing more is known.'}"

    def looked_into(self) -> bool:
        """Whether all that can be found out is known; begins to find it out. Does not wait."""
        if self._ended.is_set() or self._inquired.is_set():
            return True
        self._inquire()
        return False

    def excuse(self) -> HostLostError | None:
        """What to raise where its node is gone, and not the engine itself failed."""
        if not self._lost:
            return None
        where = "its node" if self.node is None else self.node.name
        return HostLostError(f"{self._name}: {where} cannot be reached any more, or has lost its cluster.")

    def tell(self, event: dict[str, Any]) -> None:
        """The driver has news of it."""
        if event["event"] == "ended":
            self._know(event["report"])
        elif event["event"] != "end" or not self._driver.alive:
            # Its actor is gone, or its driver: what became of the node is to be found out.
            self._inquire()

    def _know(self, report: dict[str, Any]) -> None:
        self._report = report
        if report["returncode"] is not None:
            self._ended.set()
        self._inquired.set()
        self._on_exit()

    def _inquire(self) -> None:
        """Ask in another thread, once."""
        with self._lock:
            if self._inquiring:
                return
            self._inquiring = True
        threading.Thread(target=self._ask, name=f"inquiry after {self._name}", daemon=True).start()

    def _ask(self) -> None:
        try:
            found = self._driver.call("inquire", INQUIRY_SECONDS, key=self.key)
        except (ClusterError, CallFailedError, TimeoutError) as error:
            # Without the driver its actors have ended; the engine is not to blame.
            found = {"lost": True}
            self._why = str(error)
        if "report" in found:
            self._know(found["report"])
            return
        self._lost = "lost" in found
        if not self._lost:
            self._why = f"Its Ray actor ended while the node lives: {found['died']}"
        self._ended.set()
        self._inquired.set()
        self._on_exit()
        # Its node may be there and only not be reached: when it is again, nothing is to be left on it.
        with suppress(ClusterError, CallFailedError, TimeoutError):
            self._driver.call("end", END_SECONDS, key=self.key)
