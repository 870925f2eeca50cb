"""Keeps the memory that torch gives back for torch's next use of it."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST = 64 * 2**20
"""Bytes; mallopt takes no more for the second than half of what the heap's segments have."""


def reuse_freed_memory() -> None:
    """Let the C library serve arrays of megabytes from memory that was freed before.

    By default glibc maps each of them anew and unmaps it at once when it is freed, and the kernel clears
    every page each time: a tenth of the time of an update of a team. Other C libraries are left alone.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # not glibc
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGEST)
    mallopt(_M_TRIM_THRESHOLD, 8 * _LARGEST)
