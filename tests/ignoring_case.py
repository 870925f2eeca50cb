"""Runs tests in a folder that ignores the case of letters in names, as those of macOS and Windows do.

    python tests/ignoring_case.py [TESTS ...]

The folder is a view of a temporary one through FUSE, which keeps names as they were given and finds them by
any case and any composition of their letters, as APFS does. Needs `fusepy`, libfuse 2 and the right to mount.
"""

import errno
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from fuse import FUSE, FuseOSError, Operations
from lanista.envs.utils.file_names import without_case

CHOSEN = [
    "tests/agent_processor",
    "tests/envs/registry",
    "tests/envs/scenes",
    "tests/envs/unity",
    "tests/trainers/checkpoints",
    "tests/trainers/cli",
    "tests/trainers/runner",
    "tests/trainers/settings",
    "tests/trainers/stats",
    "tests/trainers/tools",
    "tests/trainers/utils",
    "tests/windows",
]


class IgnoringCase(Operations):  # type: ignore[misc]
    """A view of a folder."""

    def __init__(self, root: str) -> None:
        self._root = root
        for name in ("chmod", "chown", "mkdir", "mknod", "readlink", "rmdir", "unlink"):
            setattr(self, name, self._at(getattr(os, name)))

    def __call__(self, operation: str, path: str, *arguments: Any) -> Any:
        return super().__call__(operation, self._real(path) if path else path, *arguments)

    def _at(self, function: Any) -> Any:
        return lambda path, *arguments: function(path, *arguments) or 0

    def _real(self, path: str) -> str:
        """The file that a path of the view stands for; as it is spelled, if there is none."""
        real = self._root
        for part in Path(path).parts[1:]:
            if not os.path.lexists(os.path.join(real, part)):
                with suppress(StopIteration, OSError):
                    part = next(name for name in os.listdir(real) if without_case(name) == without_case(part))
            real = os.path.join(real, part)
        return real

    def access(self, path: str, mode: int) -> int:
        if not os.access(path, mode):
            raise FuseOSError(errno.EACCES if os.path.exists(path) else errno.ENOENT)
        return 0

    def getattr(self, path: str, handle: int | None = None) -> dict[str, Any]:
        found = os.lstat(path)
        return {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}

    def readdir(self, path: str, handle: int) -> list[str]:
        return [".", "..", *os.listdir(path)]

    def statfs(self, path: str) -> dict[str, Any]:
        found = os.statvfs(path)
        return {name: getattr(found, name) for name in dir(found) if name.startswith("f_")}

    def symlink(self, link: str, target: str) -> int:
        os.symlink(target, link)
        return 0

    def link(self, new: str, old: str) -> int:
        os.link(self._real(old), new)
        return 0

    def rename(self, old: str, new: str) -> int:
        new, spelled = self._real(new), os.path.join(os.path.dirname(self._real(new)), os.path.basename(new))
        os.rename(old, spelled if new == old else new)
        return 0

    def truncate(self, path: str, length: int, handle: int | None = None) -> int:
        os.truncate(path if handle is None else handle, length)
        return 0

    def utimens(self, path: str, times: tuple[float, float] | None = None) -> int:
        os.utime(path, times, follow_symlinks=False)
        return 0

    def open(self, path: str, flags: int) -> int:
        return os.open(path, flags)

    def create(self, path: str, mode: int, info: Any = None) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT, mode)

    def read(self, path: str, size: int, offset: int, handle: int) -> bytes:
        return os.pread(handle, size, offset)

    def write(self, path: str, data: bytes, offset: int, handle: int) -> int:
        return os.pwrite(handle, data, offset)

    def release(self, path: str, handle: int) -> int:
        os.close(handle)
        return 0

    def fsync(self, path: str, datasync: int, handle: int) -> int:
        os.fsync(handle)
        return 0


def main() -> int:
    """Mount, run the tests there, unmount; the tests' status."""
    if sys.argv[1:2] == ["--mount"]:
        FUSE(IgnoringCase(sys.argv[2]), sys.argv[3], foreground=True, nothreads=False, use_ino=True)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        real, view = Path(folder, "real"), Path(folder, "view")
        real.mkdir(), view.mkdir()
        with subprocess.Popen([sys.executable, __file__, "--mount", str(real), str(view)]) as mounted:
            while not os.path.ismount(view) and mounted.poll() is None:
                time.sleep(0.05)
            try:
                command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
                tests = sys.argv[1:] or CHOSEN
                return subprocess.run(
                    [*command, f"--basetemp={view / 'tests'}", *tests], check=False
                ).returncode
            finally:
                subprocess.run(["fusermount", "-u", "-z", str(view)], check=False)
    return 1


if __name__ == "__main__":
    sys.exit(main())
