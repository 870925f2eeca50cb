"""The learner's side of Ray's driver: a process that answers calls, and may die at any time."""

from __future__ import annotations

import json
import logging
import subprocess
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import Any

from ..engines.own_program import own_program
from ..errors import ClusterError, NoRoomError

logger = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 8.0
"""Seconds that the driver has to kill all actors; Ray kills what is left when the driver is gone."""
_KEPT_LINES = 5
"""The number of the driver's last lines of output that are kept."""
_LAST_LINES_SECONDS = 2.0
"""Seconds for reading the driver's last lines of output after it has ended."""
_SHOWN_BYTES = 200
"""The most bytes of a line that are logged."""


class CallFailedError(Exception):
    """A call failed; the message says why."""


class DriverProcess:
    """Ray's driver, in a process of its own.

    Args:
        on_event: Called from another thread with each event.
        command: Starts the process; None for the driver.
    """

    def __init__(self, on_event: Callable[[dict[str, Any]], None], command: list[str] | None = None) -> None:
        self._on_event = on_event
        self._process = subprocess.Popen(
            command or own_program("lanista.envs.ray.driver"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in the terminal is for the learner alone
        )
        self._lock = threading.Lock()
        self._calls: dict[int, Future[Any]] = {}
        self._number = 0
        self._last: deque[str] = deque(maxlen=_KEPT_LINES)
        self._closed = False
        self._stderr_reader = threading.Thread(target=self._read_stderr, name="Ray's driver", daemon=True)
        self._stderr_reader.start()
        threading.Thread(target=self._read_stdout, name="Ray's driver", daemon=True).start()

    @property
    def alive(self) -> bool:
        """Whether the driver can be called."""
        return not self._closed and self._process.poll() is None

    def call(self, what: str, timeout: float, **arguments: object) -> Any:
        """Call the driver, and wait for the answer.

        Raises:
            TimeoutError: There was no answer within `timeout` seconds.
            NoRoomError: No node has accepted the environment.
            CallFailedError: The call failed.
            ClusterError: The driver has ended.
        """
        future: Future[Any] = Future()
        with self._lock:
            self._number += 1
            number = self._number
            self._calls[number] = future
        line = json.dumps({"id": number, "do": what, "with": arguments}) + "\n"
        try:
            self._send(line.encode())
            return future.result(timeout)
        except FutureTimeoutError:
            raise TimeoutError(f"no answer within {timeout:g} s") from None
        finally:
            with self._lock:
                self._calls.pop(number, None)

    def close(self, timeout: float = SHUTDOWN_SECONDS) -> None:
        """End the driver and all actors; pending calls raise an error."""
        self._closed = True
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, line: bytes) -> None:
        try:
            with self._lock:
                assert self._process.stdin is not None
                self._process.stdin.write(line)
                self._process.stdin.flush()
        except (OSError, ValueError):
            raise self._ended() from None

    def _read_stdout(self) -> None:
        """Dispatch messages; at the end, fail all pending calls."""
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                try:
                    self._dispatch(json.loads(line))
                except Exception:  # one message is lost, but not all that follow
                    logger.exception(
                        "A message of Ray's driver could not be handled: %r", line[:_SHOWN_BYTES]
                    )
        self._process.wait()
        with self._lock:
            waiting = list(self._calls.values())
        for future in waiting:
            if not future.done():
                future.set_exception(self._ended())
        self._on_event({"event": "end"})

    def _dispatch(self, message: dict[str, Any]) -> None:
        if "event" in message:
            self._on_event(message)
            return
        with self._lock:
            future = self._calls.get(message["id"])
        if future is None:  # the call has timed out
            return
        if "error" not in message:
            future.set_result(message["result"])
        elif message["kind"] == "no room":
            future.set_exception(NoRoomError(message["error"]))
        else:
            future.set_exception(CallFailedError(message["error"]))

    def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            for line in stream:
                text = line.decode(errors="replace").rstrip()
                if text:
                    self._last.append(text)
                    logger.debug("Ray: %s", text)

    def _ended(self) -> ClusterError:
        if self._closed:
            return ClusterError("The connection to the Ray cluster was closed.")
        # The reason is its last line. What Ray has started may keep the pipe open longer than it lives.
        self._stderr_reader.join(_LAST_LINES_SECONDS)
        output = f" Its last output: {self._last[-1]}" if self._last else ""
        return ClusterError(f"Ray has ended its own process, as it does when it loses its cluster.{output}")
