"""Windows' job objects: processes that the system ends when this one has ended, however it ended."""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Protocol, cast

_KILL_ON_JOB_CLOSE = 0x2000
_EXTENDED_LIMIT_INFORMATION = 9
_TERMINATE, _SET_QUOTA = 0x0001, 0x0100
"""The access that a job needs to a process."""


class _BasicLimits(ctypes.Structure):
    """JOBOBJECT_BASIC_LIMIT_INFORMATION."""

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
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

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
        """Set its limits."""

    def OpenProcess(self, access: int, inherit: int, pid: int) -> int | None:  # noqa: N802
        """A handle of a process."""

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
"""Of each function the type of its result and those of its arguments."""


def kernel32() -> Kernel:
    """Windows' own.

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

    Its handle is never closed: the system does that with the last handle of a process that has ended, and
    ends all processes in the job then, suspended ones too. What they start is in the job by itself, and
    cannot leave it. (Jobs may be nested since Windows 8.)

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


def _refused(function: str) -> OSError:
    if sys.platform == "win32":
        code = ctypes.get_last_error()
        return OSError(0, f"{function}: {ctypes.FormatError(code).strip()}", None, code)
    return OSError(f"{function} failed")
