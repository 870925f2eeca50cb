"""An engine's process: started in a group of its own, watched, and ended with all its children.

Engines also end when this process is killed and cannot end them itself. The kernel's own way,
PR_SET_PDEATHSIG, exists only on Linux and fires already when the thread ends that started the engine. So a
small shell reads from a pipe which process groups live, and when the pipe closes it kills those that remain.
It is there before an engine is started. One of which it has not yet read, and children that have left their
engine's group, it finds by a variable in their environment (on Linux).
"""

import atexit
import contextlib
import logging
import os
import secrets
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
from mlagents_envs.exception import UnityEnvironmentException

from .logs import EngineLog, last_lines

logger = logging.getLogger(__name__)

_KEPT = 8192
"""Bytes of a log that are read for its last lines."""


class EngineProcess:
    """A running engine.

    It lives in a session of its own, so that Ctrl-C in the terminal reaches the trainer alone.

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
        # Also if this process ends while another thread is still closing the engine.
        atexit.register(self.kill)
        self._reader = threading.Thread(target=self._read, name=f"output of {self.pid}", daemon=True)
        self._reader.start()
        threading.Thread(target=self._wait, name=f"end of {self.pid}", daemon=True).start()

    @property
    def returncode(self) -> int | None:
        """None while it runs; the exit code, negative the signal that ended it."""
        return self._process.returncode if self._ended.is_set() else None

    def wait(self, timeout: float) -> bool:
        """Wait until it has ended, at most `timeout` seconds; whether it has."""
        return self._ended.wait(timeout)

    def kill(self) -> None:
        """End the process and its children at once."""
        if not self._ended.is_set():
            _kill_all(self.pid)
            self._ended.wait(10.0)

    def is_diagnosed(self) -> bool:
        """Yes: nothing more can be found out; see `connection.Engine`."""
        return True

    def external_error(self) -> UnityEnvironmentException | None:
        """None: it has run on this machine."""
        return None

    def describe(self) -> str:
        """Its state, or how it ended, with the last lines that it wrote."""
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
        """The last lines that it has written so far."""
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
        if hasattr(os, "waitid"):
            # Wait without reaping: until the process is reaped no other can get its number,
            # so that the group that is killed is the engine's.
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            _kill_all(self.pid)
            self._process.wait()
        else:
            self._process.wait()
            if os.name == "posix":  # macOS before Python 3.13
                _kill_all(self.pid)
        REAPER.remove(self.pid)
        self._ended.set()
        atexit.unregister(self.kill)
        if self._on_exit is not None:
            self._on_exit()


def _start(command: list[str]) -> "subprocess.Popen[bytes]":
    flags = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
    try:
        with REAPER.launching() as mark:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                creationflags=flags,
                env={**os.environ, **mark},
            )
            REAPER.add(process.pid)
            return process
    except OSError as error:
        raise UnityEnvironmentException(
            f"Error when trying to launch environment: {command[0]} cannot be started, {error.strerror}. Is "
            "it a program for this machine, with the right permissions, and does the interpreter that its "
            "first line names exist?"
        ) from error


def _kill_all(pid: int) -> None:
    """Kill the process's group; where there are no groups, the process and its children one by one."""
    if os.name == "posix":
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
    """The last bytes of a file, nothing if there is none."""
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


# An engine that notices the lost connection quits by itself and gets a few seconds for it.
_SCRIPT = """
trap '' HUP INT TERM
groups= launching=0
while read -r sign group; do
    case $sign in
    =) launching=$((launching + 1)) ;;
    !) launching=$((launching - 1)) ;;
    +) groups="$groups $group" ;;
    *)
        rest=
        for other in $groups; do [ "$other" = "$group" ] || rest="$rest $other"; done
        groups=$rest
        ;;
    esac
done
[ -n "$groups" ] || [ "$launching" -gt 0 ] || exit 0
sleep 3
for group in $groups; do kill -s KILL -- "-$group"; done
for round in 1 2 3; do
    found=$(grep -lsF -e "$1" /proc/[0-9]*/environ)  # its status tells of unreadable ones
    [ -n "$found" ] || break
    for file in $found; do
        pid=${file#/proc/}
        kill -s KILL "${pid%/environ}"
    done
done
"""

_EXIT_SECONDS = 0.5
MARK = "LANISTA_GUARDED_BY"
"""The variable that engines get, with a number of their guard's own."""


class ProcessReaper:
    """Kills process groups that outlive this process, with a shell that is started with the first group."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shell: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self.mark = ""
        """The variable in the environment of engines, as `NAME=VALUE`; empty before the first."""

    @contextlib.contextmanager
    def launching(self) -> Iterator[dict[str, str]]:
        """While open, a process is being started that must not outlive this one; its group is to be added.

        Yields:
            Environment variables by which it and its children are found.
        """
        self._write("=\n", start=True)
        try:
            yield dict([self.mark.split("=")]) if self.mark else {}
        finally:
            self._write("!\n", start=False)

    def add(self, group: int) -> None:
        """Kill this process group should this process end without `remove`."""
        self._write(f"+ {group}\n", start=True)

    def remove(self, group: int) -> None:
        """The process group has ended."""
        self._write(f"- {group}\n", start=False)

    def _write(self, line: str, *, start: bool) -> None:
        if os.name != "posix":
            return
        with self._lock:
            # A forked child must not write for its parent's engines.
            if self._shell is None or self._owner != os.getpid():
                if not start:
                    return
                self.mark = f"{MARK}={secrets.token_hex(16)}"
                self._shell, self._owner = _start_guard(self.mark), os.getpid()
                atexit.register(self._close)
            if self._shell is None or self._shell.stdin is None:
                return
            try:
                os.write(self._shell.stdin.fileno(), line.encode())
            except BrokenPipeError:
                logger.warning("The guard of the engines was killed; engines may outlive a killed trainer.")
                self._shell = None

    def _close(self) -> None:
        """When this process exits, the shell ends by itself, at once if no engine is left."""
        with self._lock:
            shell, self._shell = self._shell, None
        if shell is None or shell.stdin is None or self._owner != os.getpid():
            return
        shell.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            shell.wait(_EXIT_SECONDS)


def _start_guard(mark: str) -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "guard", mark],
            # Of a trainer that has such a guard itself, as ranks have: that one must not end this one.
            env={name: value for name, value in os.environ.items() if name != MARK},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        logger.warning("No guard for the engines: %s. They may outlive a killed trainer.", error)
        return None


REAPER = ProcessReaper()
"""Of this process."""
