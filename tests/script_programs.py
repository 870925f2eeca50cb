"""Programs of scripts: what an engine's executable is in tests, on any system."""

import os
import sys
from pathlib import Path

from lanista.envs.utils.programs import windows_program

SUFFIX = ".exe" if os.name == "nt" else ".x86_64"


def write_program(path: Path, script: str, python: str = sys.executable) -> Path:
    """Write a script of Python as a program; `path` gets the suffix that games have on this system."""
    program = path.with_name(path.name + SUFFIX)
    if os.name == "nt":
        program.write_bytes(windows_program(script, python))
    else:
        program.write_text(f"#!{python}\n{script}", encoding="utf-8")
        program.chmod(0o755)
    return program
