"""Programs that are found by their name, and programs of Windows that are written."""

import io
import os
import platform as machine
import shutil
import sys
import zipfile
from importlib.resources import files
from pathlib import Path


def find_program(name: str, platform: str = sys.platform) -> str | None:
    """The program of that name or path, as a shell would start it; None if there is none.

    Windows looks for a name in the current folder before its search path, and so does `shutil.which` there.
    A project of somebody else could hold a `godot.exe`: here a bare name is found on the search path alone.
    """
    if platform != "win32" or os.path.dirname(name):
        return shutil.which(name)
    endings = os.environ.get("PATHEXT", ".COM;.EXE;.BAT;.CMD").split(";")
    for folder in map(Path, os.get_exec_path()):
        if folder.is_absolute():
            for candidate in (name, *(name + ending for ending in endings)):
                path = folder / candidate
                if path.suffix.upper() in map(str.upper, endings) and path.is_file():
                    return str(path)
    return None


def windows_program(script: str, python: str = sys.executable) -> bytes:
    """The file of a program (.exe) that runs a script of Python with this interpreter.

    It is what pip makes of console scripts: a launcher of distlib's, the line with the interpreter, and an
    archive with the script. Variables that were set for another Python have no effect (-E).
    """
    name = "t64-arm.exe" if machine.machine() == "ARM64" else "t64.exe"
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("__main__.py", script)
    return (files("distlib") / name).read_bytes() + f'#!"{python}" -E\r\n'.encode() + archive.getvalue()
