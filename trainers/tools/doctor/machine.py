"""What the machine has and limits: memory, disk, display, variables, ports; and a short training."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from ....envs.engines.own_program import own_code
from ....envs.utils.programs import find_program
from .command import Diagnosis, fault, warning

STEPS = 2000
"""The number of steps of the training: some seconds of work."""
_PATIENCE = 180
"""Seconds that the training has."""


def localhost() -> Iterator[Diagnosis]:
    """Whether the name that engines call means this machine."""
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)}
    except OSError as error:
        found, why = set[str](), f": {error.strerror}"
    else:
        why = f", but {', '.join(sorted(found))}"
    if not found & {"127.0.0.1", "::1"}:
        remedy = "Engines call it. Put the line `127.0.0.1 localhost` into the hosts file of this machine."
        yield fault("localhost", f"it is not this machine{why}", remedy)


def ports() -> Iterator[Diagnosis]:
    """Port 5004, where the Editor calls, and 5005, where executables do."""
    from ....envs.engines.ports import EDITOR_PORT, FIRST_PORT, PortInUseError, claim

    free = []
    for port in (EDITOR_PORT, FIRST_PORT):
        try:
            claim(_bind, port, search=False).close()
        except PortInUseError as error:
            held = re.sub(r"^.*?Port (\d+ is held)", r"port \1", str(error)).rstrip(". ")
            if port == EDITOR_PORT:
                remedy = "The Unity Editor calls there: end that process to train with the Editor."
                yield warning("ports", held, remedy)
            else:
                yield Diagnosis("ports", f"{held}; executables get the next one")
        except OSError as error:
            yield fault("ports", f"port {port} cannot be listened on: {error.strerror}", "Allow it.")
        else:
            free.append(str(port))
    if free:
        yield Diagnosis("ports", f"free: {', '.join(free)}")


def _bind(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def training() -> Iterator[Diagnosis]:
    """A short run of the scene basic, a process of its own that speaks the wire."""
    with tempfile.TemporaryDirectory(prefix="lanista-doctor-", ignore_cleanup_errors=True) as folder:
        began = time.monotonic()
        try:
            done = _run(folder)
        except subprocess.TimeoutExpired:
            remedy = "See what the machine is busy with, or whether a firewall holds up local connections."
            yield fault("training", f"{STEPS} steps were not over after {_PATIENCE} s", remedy)
            return
        seconds = time.monotonic() - began
        if done.returncode or not Path(folder, "doctor", "Basic.onnx").is_file():
            printed = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
            cause = printed[-1] if printed else f"status {done.returncode}"
            remedy = "If nothing above explains it, report this block."
            yield fault("training", f"a short training failed: {cause}", remedy)
            return
    paces = re.findall(r"Step: (\d+)\. Time Elapsed: ([\d.]+) s", done.stdout)
    pace = f", {float(paces[-1][0]) / max(float(paces[-1][1]), 0.01):.0f} steps/s" if paces else ""
    yield Diagnosis("training", f"{STEPS} steps through the wire in {seconds:.1f} s, with all imports{pace}")


def _run(folder: str) -> subprocess.CompletedProcess[str]:
    settings = {"max_steps": STEPS, "summary_freq": 1000, "checkpoint_interval": STEPS}
    words = [word for key, value in settings.items() for word in ("--set", f"behaviors.Basic.{key}={value}")]
    return subprocess.run(
        [
            *own_code("from lanista.trainers.console import lanista_learn; lanista_learn()"),
            *("--preset", "ppo/basic", "--env", "scene:basic", "--run-id", "doctor"),
            *("--results-dir", folder, "--seed", "0", *words),
        ],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_PATIENCE,
        check=False,
    )


GIB = 2**30
_LEAST_DISK, _LITTLE_DISK = 0.2 * GIB, 2 * GIB
_LEAST_MEMORY, _LITTLE_MEMORY = 1 * GIB, 2 * GIB
_LEAST_FILES = 256
"""The fewest open files to allow: two for each engine, and a hundred for libraries."""
_CHECKPOINT = 4 * 2**20
"""Bytes of a file that is written to see whether a checkpoint could be."""
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
_SHOWN = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "PYTHONPATH", "LD_LIBRARY_PATH", "LANISTA_")
_SECRET = re.compile(r"token|secret|password|key", re.IGNORECASE)


def memory() -> Iterator[Diagnosis]:
    """Processors, and the memory that this process may take."""
    import psutil

    from ....envs.base import processors

    yield Diagnosis("processors", f"{processors()} of {os.cpu_count()} may be used")
    free = psutil.virtual_memory()
    limits = dict(_memory_limits())
    limits_text = "".join(f", {name} {_size(size)}" for name, size in limits.items())
    text = f"{_size(free.available)} free of {_size(free.total)}{limits_text}"
    least = min([free.available, *limits.values()])
    if least < _LITTLE_MEMORY:
        level = fault if least < _LEAST_MEMORY else warning
        remedy = "A run with torch needs 1 GiB or more. Close other programs, or raise the limit."
        yield level("memory", text, remedy)
    else:
        yield Diagnosis("memory", text)


def _memory_limits() -> Iterator[tuple[str, int]]:
    """Limits below the machine's memory, in bytes, by name."""
    import psutil

    for place in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            text = Path("/sys/fs/cgroup", place).read_text().strip()
        except OSError:
            continue
        if text.isdecimal() and int(text) < psutil.virtual_memory().total:
            yield "container's limit", int(text)
    limit = _limit("RLIMIT_AS")
    if limit is not None:
        yield "limit of addresses (ulimit -v)", limit


def limits() -> Iterator[Diagnosis]:
    """Open files, and sizes of files."""
    files, size = _limit("RLIMIT_NOFILE"), _limit("RLIMIT_FSIZE")
    if files is not None and files < _LEAST_FILES:
        text = f"{files} files may be open at a time (ulimit -n)"
        yield warning("limits", text, f"Raise it: ulimit -n {4 * _LEAST_FILES}")
    if size is not None:
        text = f"files may have {_size(size)} (ulimit -f)"
        yield warning("limits", text, "Checkpoints and logs are cut off there. Lift it: ulimit -f unlimited")


def _limit(name: str) -> int | None:
    """A limit of this process; None if it is infinite, or the system has none."""
    if sys.platform == "win32":
        return None
    import resource

    soft = resource.getrlimit(getattr(resource, name))[0]
    return None if soft == resource.RLIM_INFINITY else soft


def disk() -> Iterator[Diagnosis]:
    """The folder in which runs would be written, and the temporary one."""
    folder = Path.cwd()
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_CHECKPOINT))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        remedy = "Runs are written to results/ there: change to another folder, or give --results-dir."
        yield fault("disk", f"{folder} cannot be written: {error.strerror}", remedy)
    else:
        free = shutil.disk_usage(folder).free
        text = f"{_size(free)} free in {folder}"
        if free < _LITTLE_DISK:
            level = fault if free < _LEAST_DISK else warning
            yield level("disk", text, "Checkpoints need room: free some, or give --results-dir.")
        else:
            yield Diagnosis("disk", text)
    named = [name for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)]
    wrong = [name for name in named if not os.access(os.environ[name], os.W_OK | os.X_OK)]
    for name in wrong:
        text = f"{name}={os.environ[name]} is no folder that can be written"
        yield warning("disk", text, f"Make it, or unset {name}: temporary files now go to {_temporary()}.")


def _temporary() -> str:
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        return "no folder at all"


def display() -> Iterator[Diagnosis]:
    """The screen that executables open their windows on."""
    if sys.platform != "linux":
        yield Diagnosis("display", sys.platform)
        return
    wayland, name = os.environ.get("WAYLAND_DISPLAY"), os.environ.get("DISPLAY")
    if not (wayland or name):
        yield Diagnosis("display", "none: start executables with --no-graphics, or by xvfb-run")
    elif name and not wayland and not _answers(name):
        remedy = "Unset DISPLAY and give --no-graphics, or start what it names, such as Xvfb."
        yield warning("display", f"DISPLAY={name}, and no X server answers there", remedy)
    else:
        yield Diagnosis("display", f"DISPLAY={name}" if name else f"WAYLAND_DISPLAY={wayland}")


def _answers(name: str) -> bool:
    """Whether an X server listens at `host:number.screen`."""
    found = re.fullmatch(r"(?P<host>[^/:]*)(?:/unix)?:(?P<number>\d+)(?:\.\d+)?", name)
    if found is None or sys.platform == "win32":
        return False
    if found["host"] not in ("", "unix"):
        return _connects(socket.AF_INET, (found["host"], 6000 + int(found["number"])))
    path = f"/tmp/.X11-unix/X{found['number']}"  # noqa: S108 (a file, or on Linux a name without one)
    return _connects(socket.AF_UNIX, path) or _connects(socket.AF_UNIX, f"\0{path}")


def _connects(family: socket.AddressFamily, address: str | tuple[str, int]) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(2.0)
        try:
            probe.connect(address)
        except OSError:
            return False
    return True


def proxies() -> Iterator[Diagnosis]:
    """Proxies that engines might ask for the way to this very machine."""
    given = {name: value for name, value in os.environ.items() if name.lower() in _PROXIES and value}
    excepted = ",".join(os.environ.get(name, "") for name in ("no_proxy", "NO_PROXY"))
    around = {part.strip() for part in excepted.split(",")} & {"localhost", "127.0.0.1", "*"}
    listed = ", ".join(f"{name}={_without_password(value)}" for name, value in given.items())
    if given and not around:
        yield warning(
            "proxies",
            listed,
            "Engines that obey it cannot reach the trainer: set no_proxy=localhost,127.0.0.1",
        )
    else:
        yield Diagnosis("proxies", listed or "none")


def _without_password(address: str) -> str:
    parts = urlsplit(address if "//" in address else f"//{address}")
    return (
        address.replace(parts.netloc, f"(hidden)@{parts.netloc.rpartition('@')[2]}", 1)
        if "@" in parts.netloc
        else address
    )


def variables() -> Iterator[Diagnosis]:
    """Environment variables that change what Lanista does."""
    shown = {name: value for name, value in os.environ.items() if name.startswith(_SHOWN)}
    shown = {name: "(hidden)" if _SECRET.search(name) else value for name, value in sorted(shown.items())}
    godot = os.environ.get("LANISTA_GODOT")
    if godot and not find_program(godot):
        remedy = "Let it name Godot's program, or unset it."
        yield warning("variables", f"LANISTA_GODOT={godot} is no program", remedy)
    yield Diagnosis("variables", ", ".join(f"{name}={value}" for name, value in shown.items()) or "none")


def _size(number: float) -> str:
    return f"{number / GIB:.1f} GiB" if number >= GIB else f"{number / 2**20:.0f} MiB"
