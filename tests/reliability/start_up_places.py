"""What surrounds a run that is to fail at its start: files, ports, permissions, an older run."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock

from lanista.envs.utils.process_lock import ProcessLock

GOOD = """\
behaviors:
  Basic:
    trainer_type: ppo
    hyperparameters: {batch_size: 8, buffer_size: 64}
    network_settings: {hidden_units: 16, num_layers: 1}
    max_steps: 200
    summary_freq: 100
"""
"""For `scene:basic`."""


@dataclass
class Around:
    """What a place adds to the command."""

    arguments: list[str] = field(default_factory=list)
    preexec: Callable[[], None] | None = None
    """Runs in the new process before the command."""


Place = Callable[[Path], AbstractContextManager[Around]]
"""Prepares the folder in which the command runs, for as long as the command needs it."""


@contextmanager
def written(folder: Path, contents: dict[str, str | bytes], mode: int = 0o644) -> Iterator[Around]:
    """Files by their paths; a path that ends with a slash is a folder."""
    for name, content in contents.items():
        path = folder / name
        if name.endswith("/"):
            path.mkdir(parents=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(mode)
    yield Around()


@contextmanager
def program(folder: Path, content: str | bytes) -> Iterator[Around]:
    """An executable, which is to be the environment."""
    with written(folder, {"Game.x86_64": content}, 0o755):
        yield Around(["--env", "Game.x86_64"])


def _listener(port: int = 0) -> socket.socket:
    """A socket that listens. Raises OSError."""
    other = socket.socket()
    try:
        other.bind(("127.0.0.1", port))
        other.listen()
    except OSError:
        other.close()
        raise
    return other


@contextmanager
def taken_port(folder: Path) -> Iterator[Around]:
    """A scene that is to use a port that is taken."""
    with _listener() as other:
        yield Around(["--env", "scene:basic", "--base-port", str(other.getsockname()[1])])


@contextmanager
def short_range(folder: Path) -> Iterator[Around]:
    """Three scenes, of which the second one's port is taken."""
    with _listener() as other:
        first = other.getsockname()[1] - 1
        yield Around(["--env", "scene:basic", "--num-envs", "3", "--base-port", str(first)])


@contextmanager
def editor_port(folder: Path) -> Iterator[Around]:
    """The Editor's port is taken, by this process or by another one."""
    with ExitStack() as stack:
        try:
            stack.enter_context(_listener(5004))
        except OSError:
            print("Another process holds port 5004.", file=sys.stderr)
        yield Around()


def _obey_permissions() -> None:
    """Let root, who may write anywhere, obey permissions as other users do (on Linux)."""
    if os.geteuid() != 0:
        return
    library = ctypes.CDLL(None, use_errno=True)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        if library.prctl(24, capability, 0, 0, 0):  # PR_CAPBSET_DROP
            raise OSError(ctypes.get_errno(), "root cannot be made to obey permissions")


@contextmanager
def forbidden(folder: Path, name: str, mode: int, *arguments: str) -> Iterator[Around]:
    """A file or folder (made if it is missing) with restricted permissions."""
    path = folder / name
    if not path.exists():
        path.mkdir()
    before = path.stat().st_mode
    path.chmod(mode)
    try:
        yield Around(list(arguments), _obey_permissions)
    finally:
        path.chmod(before)


@contextmanager
def full_disk(folder: Path) -> Iterator[Around]:
    """No room for the content of any file."""
    import resource

    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    yield Around(preexec=no_room)


_training = Lock()


@cache
def _trained() -> Path:
    """The results of a run `r` that came to its end, made once."""
    folder = Path(tempfile.mkdtemp(prefix="start-up-"))
    (folder / "c.yaml").write_text(GOOD)
    command = [sys.executable, "-c", "from lanista.trainers.learn import main; main()", "c.yaml"]
    done = subprocess.run(
        [*command, "--run-id", "r", "--env", "scene:basic", "--seed", "1"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the run to be resumed failed:\n{done.stdout}\n{done.stderr}")
    return folder


def forget_trained() -> None:
    """Remove what `trained` has made."""
    if _trained.cache_info().currsize:
        shutil.rmtree(_trained())


@contextmanager
def trained(folder: Path, *damage: Callable[[Path], None]) -> Iterator[Around]:
    """The finished run `r`, to whose folder `damage` is done."""
    with _training:  # one of several threads makes it
        results = _trained() / "results"
    shutil.copytree(results, folder / "results")
    for harm in damage:
        harm(folder / "results" / "r")
    yield Around()


def cut(pattern: str) -> Callable[[Path], None]:
    """Cuts the files of this pattern in half."""

    def harm(run: Path) -> None:
        for path in run.glob(pattern):
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return harm


@contextmanager
def under_way(folder: Path) -> Iterator[Around]:
    """The finished run `r`, at which another process (this one) is still at work."""
    with trained(folder):
        lock = ProcessLock(folder / "results" / ".r.lock")
        if not lock.acquire():
            raise RuntimeError("the lock of a new folder is taken")
        try:
            yield Around()
        finally:
            lock.release()


@contextmanager
def attached_port(folder: Path) -> Iterator[Around]:
    """Engines are to connect to a port that is taken."""
    with _listener() as other:
        yield Around(["--listen", f"127.0.0.1:{other.getsockname()[1]}"])
