"""Programs of scripts: what an engine's executable is in tests, on any system, and how it ends there."""

import os
import signal
import sys
from pathlib import Path

from lanista.envs.utils.programs import windows_program

WINDOWS = os.name == "nt"
SUFFIX = ".exe" if WINDOWS else ".x86_64"

KILL = signal.SIGTERM if WINDOWS else signal.SIGKILL
"""What `os.kill` and psutil end a process with at once; on Windows its number becomes the exit code."""
KILLED = int(KILL) if WINDOWS else -int(KILL)
"""The exit code of a process that was killed."""
KILLED_MESSAGE = rf"return code {KILLED}\." if WINDOWS else r"return code -9 \(SIGKILL\)"
CRASH = (
    "import ctypes; ctypes.windll.kernel32.TerminateProcess(ctypes.c_void_p(-1), 0xC0000005)"
    if WINDOWS
    else "os.kill(os.getpid(), signal.SIGSEGV)"
)
"""A statement that ends its process as a wrong pointer does."""
CRASH_MESSAGE = r"\(0xc0000005, access violation\)" if WINDOWS else r"return code -11 \(SIGSEGV\)"


def write_program(path: Path, script: str, python: str = sys.executable) -> Path:
    """Write a script of Python as a program; `path` gets the suffix that games have on this system."""
    program = path.with_name(path.name + SUFFIX)
    if WINDOWS:
        program.write_bytes(windows_program(script, python))
    else:
        program.write_text(f"#!{python}\n{script}", encoding="utf-8")
        program.chmod(0o755)
    return program
