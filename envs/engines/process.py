"""An engine's process: started in a group of its own, watched, and ended with all its children.

Engines also end when this process is killed and cannot end them itself; see `reaper`.
"""

import atexit
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
from mlagents_envs.exception import UnityEnvironmentException

from .clients import ClientRules
from .connection import EngineConnection, EngineKind, EngineSession
from .logs import EngineLog, last_lines
from .options import EngineOptions
from .reaper import REAPER

logger = logging.getLogger(__name__)

_KEPT = 8192
"""The number of bytes of a log that are read for its last lines."""


class EngineProcess:
    """A running engine.

    The process lives in a session of its own, so that Ctrl-C in the terminal reaches the trainer alone.

    Args:
        command: Program and arguments.
        log: The log that the engine writes, if we know it.
        on_exit: Called from another thread when the process has ended.

    Raises:
        UnityEnvironmentException: The operating system refuses to start it.
    """

    def __init__(
        self, command: Sequence[str], log: EngineLog | None = None, on_exit: Callable[[], None] | None = None
    ) -> None:
        self.command = list(command)
        self._log = log
        self._on_exit = on_exit
        self._output = bytearray()
        self._ended = threading.Event()
        self._process = _start(self.command)
        self.pid = self._process.pid
        self._started_by = os.getpid()
        # Also if this process ends while another thread is still closing the engine.
        atexit.register(self.kill)
        self._reader = threading.Thread(target=self._read, name=f"output of {self.pid}", daemon=True)
        self._reader.start()
        threading.Thread(target=self._wait, name=f"end of {self.pid}", daemon=True).start()

    @property
    def returncode(self) -> int | None:
        """The exit code, or minus the number of the signal that ended the process; None while it runs."""
        return self._process.returncode if self._ended.is_set() else None

    def wait(self, timeout: float) -> bool:
        """Wait until the process has ended, at most `timeout` seconds; return whether it has."""
        return self._ended.wait(timeout)

    def kill(self) -> None:
        """End the process and its children at once; not from a forked process."""
        if not self._ended.is_set() and self._started_by == os.getpid():
            _kill_all(self.pid)
            self._ended.wait(10.0)

    def is_diagnosed(self) -> bool:
        """Return True: nothing more can be found out; see `connection.Engine`."""
        return True

    def external_error(self) -> UnityEnvironmentException | None:
        """Return None: the engine has run on this machine."""
        return None

    def describe(self) -> str:
        """The engine's state, or how it ended, with the last lines that it wrote."""
        return f"{self._state()} Its command was: {' '.join(self.command)}.{self.output()}"

    def _state(self) -> str:
        code = self.returncode
        if code is None:
            try:
                return f"Its process {self.pid} is alive ({psutil.Process(self.pid).status()})."
            except psutil.Error:
                return f"Its process {self.pid} is ending."
        return f"Environment shut down with return code {code}{_signal_name(code)}."

    def output(self) -> str:
        """The last lines that the engine has written so far."""
        if self.returncode is not None:
            self._reader.join(1.0)
        source, text = "its output", bytes(self._output[-_KEPT:])
        if self._log is not None:
            logged = _tail(self._log.path)
            if logged.strip() or not text.strip():
                source, text = str(self._log), logged
        lines = last_lines(text.decode(errors="replace"))
        if not lines:
            return " It wrote nothing."
        return "\n".join([f" The last lines of {source}:", *(f"    {line}" for line in lines)])

    def _read(self) -> None:
        """Drain the engine's output, so that it never blocks, and keep the end of it."""
        stream = self._process.stdout
        assert stream is not None
        with stream:
            while chunk := os.read(stream.fileno(), 65536):
                self._output += chunk
                if len(self._output) > 8 * _KEPT:
                    del self._output[:-_KEPT]
                if logger.isEnabledFor(logging.DEBUG):
                    logger.debug("engine %d: %s", self.pid, chunk.decode(errors="replace").rstrip())

    def _wait(self) -> None:
        if sys.platform != "win32" and hasattr(os, "waitid"):
            # Wait without reaping: until the process is reaped no other can get its number,
            # so that the group that is killed is the engine's.
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            _kill_all(self.pid)
            self._process.wait()
        else:
            self._process.wait()
            if sys.platform != "win32":  # macOS before Python 3.13
                _kill_all(self.pid)
        REAPER.remove(self.pid)
        self._ended.set()
        atexit.unregister(self.kill)
        if self._on_exit is not None:
            self._on_exit()


def _start(command: list[str]) -> "subprocess.Popen[bytes]":
    try:
        return REAPER.start(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except OSError as error:
        raise UnityEnvironmentException(
            f"Error when trying to launch environment: {command[0]} cannot be started, {error.strerror}. Is "
            "it a program for this machine, with the right permissions, and does the interpreter that its "
            "first line names exist?"
        ) from error


def _kill_all(pid: int) -> None:
    """Kill the process's group; where there are no groups, the process and its children one by one."""
    if sys.platform != "win32":
        try:
            os.killpg(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # all gone; on macOS the second
            return
        return
    try:
        leader = psutil.Process(pid)
        family = [*leader.children(recursive=True), leader]
    except psutil.NoSuchProcess:
        return
    for member in family:
        try:
            member.kill()
        except psutil.Error as error:
            logger.warning("Process %d of an engine could not be ended: %s.", member.pid, error)


def _tail(path: Path) -> bytes:
    """The last bytes of a file; nothing if there is no such file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _KEPT))
            return file.read()
    except OSError:
        return b""


_CRASHES = {
    0xC0000005: "access violation",
    0xC00000FD: "stack overflow",
    0xC0000135: "a DLL is missing",
    0xC0000142: "a DLL could not be started",
    0xC000013A: "ended by Ctrl-C or with its console",
    0xC0000409: "stack buffer overrun, or an abort",
}
"""Common exit codes of crashes on Windows."""


def _signal_name(code: int) -> str:
    """The meaning of an exit code, in parentheses; on Windows crashes have codes of their own."""
    if code >= 0x80000000:
        return f" ({', '.join(filter(None, [hex(code), _CRASHES.get(code)]))})"
    if code >= 0:
        return ""
    try:
        return f" ({signal.Signals(-code).name})"
    except ValueError:
        return ""


def launched(
    options: EngineOptions,
    kind: EngineKind,
    listen: Callable[[EngineOptions], EngineSession],
    start: Callable[[int], EngineProcess] | None,
) -> EngineConnection:
    """Listen for an engine, and start it unless an editor plays it.

    Args:
        options: Which engine, and how.
        kind: The engine's kind.
        listen: Opens the session at which it calls.
        start: Starts the engine, so that it calls on this port; None for an editor.

    Raises:
        ValueError: An entry of `allow` is not a network.
        UnityEnvironmentException: It cannot be started.
        PortInUseError: The editor's port, or the requested one, is taken.
    """
    networks = options.networks
    session = listen(options)
    session.client_rules = ClientRules(networks)
    process = None
    if start is None:
        logger.info("Listening on port %d. Start training by %s.", session.port, kind.terms.playing)
    else:
        try:
            process = start(session.port)
        except BaseException:
            session.close()
            raise
        session.client_rules = ClientRules(networks, process.pid, REAPER.mark)
    return EngineConnection(
        session, process, options.timeout_wait, options.name, kind, windowless=options.windowless
    )
