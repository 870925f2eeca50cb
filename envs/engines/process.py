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
from .connection import EngineConnection
from .engine_errors import EngineError
from .interfaces import EngineKind, EngineSession
from .listener import EngineListener
from .logs import LINES, EngineLog, last_lines, listed, listed_errors
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
        listener: Finds errors in what it prints; None if nobody is to.

    Raises:
        UnityEnvironmentException: The operating system refuses to start it.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: EngineLog | None = None,
        on_exit: Callable[[], None] | None = None,
        listener: EngineListener | None = None,
    ) -> None:
        self.command = list(command)
        self._log = log
        self._listener = listener
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
        if listener is not None:
            listener.start()
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
        """Return True: nothing more can be found out; see `interfaces.Engine`."""
        return True

    def external_error(self) -> UnityEnvironmentException | None:
        """Return None: the engine has run on this machine."""
        return None

    def describe(self, called: bool = True) -> str:
        """The engine's state, or how it ended, with the first errors and the last lines that it wrote.

        Args:
            called: Whether the trainer has heard from it. The output of one that never called is shown beside
                its log: what keeps an engine from starting is mostly not in there.
        """
        return f"{self._state()} Its command was: {' '.join(self.command)}.{self.output(called)}"

    def errors(self) -> Sequence[EngineError]:
        """The first of each kind of error that the engine has printed so far."""
        return () if self._listener is None else self._listener.errors()

    def _state(self) -> str:
        code = self.returncode
        if code is None:
            try:
                return f"Its process {self.pid} is alive ({psutil.Process(self.pid).status()})."
            except psutil.Error:
                return f"Its process {self.pid} is ending."
        return f"Environment shut down with return code {code}{_signal_name(code)}."

    def output(self, called: bool = True) -> str:
        """The first errors and the last lines that the engine has written so far; see `describe`."""
        if (code := self.returncode) is not None:
            self._reader.join(1.0)
        printed, logged = bytes(self._output[-_KEPT:]), b"" if self._log is None else _tail(self._log.path)
        by_signal = code is not None and (code < 0 or code >= _FIRST_CRASH)
        shown = [] if not logged.strip() else [(str(self._log), logged)]
        if not shown or ((by_signal or not called) and not _holds(logged, printed)):
            shown.append(("its output", printed))
        parts = [listed_errors(self.errors())]
        for source, text in shown:
            parts.append(listed(f"The last lines of {source}", last_lines(text)))
        return "\n".join(part for part in parts if part) or " It wrote nothing."

    def _read(self) -> None:
        """Drain the engine's output, so that it never blocks, and keep the end of it."""
        stream = self._process.stdout
        assert stream is not None
        with stream:
            while chunk := os.read(stream.fileno(), 65536):
                if self._listener is not None:
                    self._listener.hear(chunk)
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
        try:
            REAPER.remove(self.pid)
            if self._listener is not None:
                self._reader.join(1.0)
                self._listener.close()
        finally:
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
            f"Error when trying to launch environment: {command[0]} cannot be started, {_reason(error)}"
        ) from error


def _reason(error: OSError) -> str:
    """What the system says, and what to look at."""
    if sys.platform == "win32":  # which leaves a place in its text for the program's name
        text = str(error.strerror).replace("%1", "it").rstrip(".")
        return f"{text} (error {error.winerror}). Is it whole, and a program for this Windows and processor?"
    return (
        f"{error.strerror}. Is it a program for this machine, with the right permissions, and does the "
        "interpreter that its first line names exist?"
    )


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


def _holds(log: bytes, output: bytes) -> bool:
    """Whether all last lines of the output are in the log as well, as Godot writes them."""
    logged = {line.strip() for line in log.splitlines()}
    return all(line.strip() in logged for line in output.splitlines()[-LINES:])


def _tail(path: Path) -> bytes:
    """The last bytes of a file; nothing if there is no such file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _KEPT))
            return file.read()
    except OSError:
        return b""


_FIRST_CRASH = 0x80000000
"""Windows' exit codes from here on are those of crashes."""
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
    if code >= _FIRST_CRASH:
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
    editor_log: Path | None = None,
) -> EngineConnection:
    """Listen for an engine, and start it unless an editor plays it.

    Args:
        options: Which engine, and how.
        kind: The engine's kind.
        listen: Opens the session at which it calls.
        start: Starts the engine, so that it calls on this port; None for an editor.
        editor_log: The log of the editor, where it is known.

    Raises:
        ValueError: An entry of `allow` is not a network.
        UnityEnvironmentException: It cannot be started.
        PortInUseError: The editor's port, or the requested one, is taken.
    """
    networks = options.networks
    session = listen(options)
    session.client_rules = ClientRules(networks)
    process = listener = None
    if start is None:
        listener = None if editor_log is None else EngineListener.of(options, kind.name, editor_log)
        logger.info("Listening on port %d. Start training by %s.", session.port, kind.terms.playing)
    else:
        try:
            process = start(session.port)
        except BaseException:
            session.close()
            raise
        session.client_rules = ClientRules(networks, process.pid, REAPER.mark)
    return EngineConnection(
        session,
        process,
        options.timeout_wait,
        options.name,
        kind,
        windowless=options.windowless,
        listener=listener,
    )
