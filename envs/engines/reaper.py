"""Processes that must not outlive this one, even if it is killed and cannot end them itself.

The kernel's own way, PR_SET_PDEATHSIG, exists only on Linux and fires already when the thread ends that
started the process. So a small shell reads from a pipe which process groups live, and when the pipe closes it
kills those that remain, and removes temporary folders. It is there before a process is started. One of which
it has not yet read, and children that have left their process's group, it finds by a variable in their
environment (on Linux).

On Windows a job object for each does the same, and ends what a process leaves behind when it ends by itself.
Processes are started suspended, and resumed once they are in it: one whose starter is killed in between never
begins.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import logging
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import psutil

logger = logging.getLogger(__name__)

_KILL_ON_JOB_CLOSE = 0x2000
_EXTENDED_LIMIT_INFORMATION = 9
_TERMINATE, _SET_QUOTA = 0x0001, 0x0100
"""The access rights that a job needs to a process."""


class _BasicLimits(ctypes.Structure):
    """The structure JOBOBJECT_BASIC_LIMIT_INFORMATION of Windows."""

    _fields_ = (
        ("per_process_user_time_limit", ctypes.c_int64),
        ("per_job_user_time_limit", ctypes.c_int64),
        ("limit_flags", ctypes.c_uint32),
        ("minimum_working_set_size", ctypes.c_size_t),
        ("maximum_working_set_size", ctypes.c_size_t),
        ("active_process_limit", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("priority_class", ctypes.c_uint32),
        ("scheduling_class", ctypes.c_uint32),
    )


class _ExtendedLimits(ctypes.Structure):
    """The structure JOBOBJECT_EXTENDED_LIMIT_INFORMATION of Windows."""

    _fields_ = (
        ("basic", _BasicLimits),
        ("io_counters", ctypes.c_uint64 * 6),
        ("process_memory_limit", ctypes.c_size_t),
        ("job_memory_limit", ctypes.c_size_t),
        ("peak_process_memory_used", ctypes.c_size_t),
        ("peak_job_memory_used", ctypes.c_size_t),
    )


class Kernel(Protocol):
    """The functions of kernel32.dll that are used. Handles are integers; 0 and None: the call failed."""

    def CreateJobObjectW(self, attributes: None, name: None) -> int | None:  # noqa: N802 (Windows' names)
        """Make a job object that is closed with this process."""

    def SetInformationJobObject(self, job: int, kind: int, data: Any, size: int) -> int:  # noqa: N802
        """Set a job's limits."""

    def OpenProcess(self, access: int, inherit: int, pid: int) -> int | None:  # noqa: N802
        """Open a process; return its handle."""

    def AssignProcessToJobObject(self, job: int, process: int) -> int:  # noqa: N802
        """Put a process into a job, and with it all that it will start."""

    def CloseHandle(self, handle: int) -> int:  # noqa: N802
        """Give a handle back."""


_HANDLE, _BOOL, _DWORD = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32
_SIGNATURES = {
    "CreateJobObjectW": (_HANDLE, _HANDLE, ctypes.c_wchar_p),
    "SetInformationJobObject": (_BOOL, _HANDLE, ctypes.c_int, ctypes.c_void_p, _DWORD),
    "OpenProcess": (_HANDLE, _DWORD, _BOOL, _DWORD),
    "AssignProcessToJobObject": (_BOOL, _HANDLE, _HANDLE),
    "CloseHandle": (_BOOL, _HANDLE),
}
"""The type of each function's result, followed by those of its arguments."""


def kernel32() -> Kernel:
    """The functions of Windows' own kernel32.dll.

    Raises:
        OSError: This system is another one.
    """
    if sys.platform == "win32":
        library = ctypes.WinDLL("kernel32", use_last_error=True)
        for name, (result, *arguments) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        return cast("Kernel", library)
    raise OSError("only Windows has job objects")


class JobObject:
    """Processes that end with this one.

    The system closes the job's handle with this process, if nobody has before, and ends all processes in the
    job then, suspended ones too. What they start is in the job by itself, and cannot leave it. (Jobs may be
    nested since Windows 8.)

    Raises:
        OSError: The system makes no job.
    """

    def __init__(self, kernel: Kernel | None = None) -> None:
        self._kernel = kernel or kernel32()
        job = self._kernel.CreateJobObjectW(None, None)
        if not job:
            raise _refused("CreateJobObject")
        self._job = job
        limits = _ExtendedLimits()
        limits.basic.limit_flags = _KILL_ON_JOB_CLOSE
        size = ctypes.sizeof(limits)
        if not self._kernel.SetInformationJobObject(
            job, _EXTENDED_LIMIT_INFORMATION, ctypes.byref(limits), size
        ):
            raise _refused("SetInformationJobObject")

    def add(self, pid: int) -> None:
        """Let a process of ours, which must not have been waited for, end with this one.

        Raises:
            OSError: The system refuses it.
        """
        process = self._kernel.OpenProcess(_SET_QUOTA | _TERMINATE, False, pid)
        if not process:
            raise _refused("OpenProcess")
        try:
            if not self._kernel.AssignProcessToJobObject(self._job, process):
                raise _refused("AssignProcessToJobObject")
        finally:
            self._kernel.CloseHandle(process)

    def close(self) -> None:
        """End all processes in the job."""
        self._kernel.CloseHandle(self._job)


def _refused(function: str) -> OSError:
    if sys.platform == "win32":
        code = ctypes.get_last_error()
        return OSError(0, f"{function}: {ctypes.FormatError(code).strip()}", None, code)
    return OSError(f"{function} failed")


# An engine that notices the lost connection quits by itself and gets a few seconds for it.
_SCRIPT = """
trap '' HUP INT TERM
groups= launching=0
read -r mark || exit 0  # what is empty would be found in every process
while read -r sign group; do
    case $sign in
    =) launching=$((launching + 1)) ;;
    !) launching=$((launching - 1)) ;;
    +) groups="$groups $group" ;;
    /) set -- "$@" "$group" ;;
    *)
        rest=
        for other in $groups; do [ "$other" = "$group" ] || rest="$rest $other"; done
        groups=$rest
        ;;
    esac
done
if [ -z "$groups" ] && [ "$launching" -le 0 ]; then
    rm -rf -- "$@"
    exit 0
fi
sleep 3
for group in $groups; do kill -s KILL -- "-$group"; done
for round in 1 2 3; do
    found=$(grep -lsF -e "$mark" /proc/[0-9]*/environ)  # its status tells of unreadable ones
    [ -n "$found" ] || break
    for file in $found; do
        pid=${file#/proc/}
        kill -s KILL "${pid%/environ}"
    done
done
rm -rf -- "$@"
"""

_EXIT_SECONDS = 0.5
MARK = "LANISTA_GUARDED_BY"
"""The environment variable that engines get; its value is a number of their guard's own."""


class Reaper(Protocol):
    """Starts processes, and ends those that would outlive this one."""

    mark: str
    """The variable in the processes' environment, as `NAME=VALUE`; empty before the first process, and where
    there is none."""

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a process in a session (on Windows a process group) of its own: Ctrl-C does not reach it.

        Args:
            command: Program and arguments.
            options: The options of `Popen` that are about its streams.

        Raises:
            OSError: The system refuses to start it.
        """

    def remove(self, pid: int) -> None:
        """Record that a process that was started has ended, and with it all that it has started."""

    def make_folder(self, prefix: str) -> Path:
        """Make a temporary folder that no other user can enter, and that is not to outlive this process.

        A folder whose path has a line break is not removed if this process is killed.

        Raises:
            OSError: The system refuses.
        """


class ShellReaper:
    """Kills process groups that outlive this process, with a shell that is started with the first group."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shell: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self.mark = ""

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a process; see `Reaper.start`."""
        with self._launching() as mark:
            environment = {**os.environ, **mark}
            process = subprocess.Popen(list(command), start_new_session=True, env=environment, **options)
            self.add(process.pid)
            return process

    @contextlib.contextmanager
    def _launching(self) -> Iterator[dict[str, str]]:
        """Tell the shell, while open, that a process is being started whose group is still to be added.

        Yields:
            Environment variables by which the process and its children are found.
        """
        self._write("=\n", start=True)
        try:
            yield dict([self.mark.split("=")]) if self.mark else {}
        finally:
            self._write("!\n", start=False)

    def add(self, group: int) -> None:
        """Have this process group killed if this process ends without calling `remove`."""
        self._write(f"+ {group}\n", start=True)

    def remove(self, pid: int) -> None:
        """Record that the process group led by `pid` has ended."""
        self._write(f"- {pid}\n", start=False)

    def make_folder(self, prefix: str) -> Path:
        """Make a temporary folder; see `Reaper.make_folder`."""
        folder = tempfile.mkdtemp(prefix=prefix)
        if "\n" not in folder:  # the shell reads lines: of a longer path it would remove what the first names
            self._write(f"/ {folder}\n", start=True)
        return Path(folder)

    def _write(self, line: str, *, start: bool) -> None:
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
        """Close the shell's input as this process exits: it then ends, at once if no engine is left."""
        with self._lock:
            shell, self._shell = self._shell, None
        if shell is None or shell.stdin is None or self._owner != os.getpid():
            return
        shell.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            shell.wait(_EXIT_SECONDS)


def _start_guard(mark: str) -> subprocess.Popen[bytes] | None:
    """Start the shell, which reads the mark first: its command line is everybody's to see."""
    try:
        guard = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "guard"],
            # Of a trainer that has such a guard itself, as ranks have: that one must not end this one.
            env={name: value for name, value in os.environ.items() if name != MARK},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert guard.stdin is not None
        os.write(guard.stdin.fileno(), f"{mark}\n".encode())
        return guard
    except OSError as error:
        logger.warning("No guard for the engines: %s. They may outlive a killed trainer.", error)
        return None


def resume_family(pid: int) -> None:
    """Let a process and its descendants go on if they were suspended.

    Among them may be a guard, which has to end the others once the process has ended.
    """
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        for member in (*process.children(recursive=True), process):
            with contextlib.suppress(psutil.Error):
                member.resume()


_CREATE_NEW_PROCESS_GROUP, _CREATE_SUSPENDED = 0x200, 0x4


class JobReaper:
    """Lets Windows end processes with this one, and what they leave behind, by a job object for each."""

    mark = ""
    creation_flags = _CREATE_NEW_PROCESS_GROUP | _CREATE_SUSPENDED

    def __init__(self, kernel: Kernel | None = None) -> None:
        self._kernel = kernel
        self._lock = threading.Lock()
        self._jobs: dict[int, JobObject] = {}
        self._refused = False

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a process; see `Reaper.start`."""
        process = subprocess.Popen(list(command), creationflags=self.creation_flags, **options)
        try:
            self.admit(process.pid)
        except psutil.Error as error:
            process.kill()
            raise OSError(0, f"it cannot be resumed ({error})") from error
        return process

    def admit(self, pid: int) -> None:
        """Resume a suspended process, as one that ends with this one."""
        with self._lock:
            try:
                if not self._refused:
                    self._jobs[pid] = self._job_of(pid)
            except OSError as error:
                logger.warning("No guard for process %d: %s. It may outlive a killed trainer.", pid, error)
        psutil.Process(pid).resume()

    def _job_of(self, pid: int) -> JobObject:
        """A new job with this process. Raises OSError; if no job can be made, nobody tries it again."""
        try:
            job = JobObject(self._kernel)
        except OSError:
            self._refused = True
            raise
        try:
            job.add(pid)
        except OSError:
            job.close()
            raise
        return job

    def remove(self, pid: int) -> None:
        """End what a process that has ended has left behind; see `Reaper.remove`."""
        with self._lock:
            job = self._jobs.pop(pid, None)
        if job is not None:
            job.close()

    def make_folder(self, prefix: str) -> Path:
        """Make a temporary folder, which stays should this process be killed."""
        return Path(tempfile.mkdtemp(prefix=prefix))


REAPER: Reaper = JobReaper() if sys.platform == "win32" else ShellReaper()
"""The reaper of this process."""
