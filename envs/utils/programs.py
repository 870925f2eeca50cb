"""Programs that are found by their name."""

import os
import shutil
import sys
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
