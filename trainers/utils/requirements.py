"""What a run needs of this machine, checked and set before torch is loaded, which takes a second or more."""

from __future__ import annotations

import logging
import math
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from ..._shadows import shadowed
from .errors import TrainerError

logger = logging.getLogger(__name__)

OLDEST_TORCH = (2, 4)
"""The oldest version of torch that is accepted, as in setup.py."""
_NEEDED = ("onnx", "onnxruntime", "tensorboard", "rich")
"""The packages that are first imported during a run, perhaps hours after its start."""
_LEAST_ADDRESSES = 560 * 2**20
"""Bytes of addresses without which no run gets to its first step, since libraries cannot be loaded."""
_AMPLE_ADDRESSES = 2 * 2**30
"""Bytes with which a run of small networks on a CPU has room."""
_THREAD_ADDRESSES = 72 * 2**20
"""Bytes that glibc reserves for each thread: its stack and its heap."""


def check_requirements(device: str | None) -> None:
    """Refuse a run that this installation or this machine cannot do.

    Args:
        device: the name that torch is to be asked for; None for its own choice.

    Raises:
        TrainerError: torch or another package is missing or too old, or there cannot be such a device.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        names = " ".join(missing)
        raise TrainerError(f"{', '.join(missing)} is not installed for this Python: pip install {names}")
    found = _torch_version()
    limit, free = _limited_addresses()
    if free < _LEAST_ADDRESSES:
        raise TrainerError(
            f"{limit}, with which torch cannot be loaded: 'ulimit -v unlimited' lifts the limit. A cgroup "
            "limits the memory that is really used."
        )
    kind = (device or "cpu").partition(":")[0]
    if kind == "mps" and sys.platform != "darwin":
        raise _no_device(device, "only Macs have it")
    if kind == "cuda" and (sys.platform == "darwin" or found.endswith("+cpu")):
        raise _no_device(device, f"the installed torch {found} computes on the CPU alone")


def load_torch() -> None:
    """Import torch; signals that come meanwhile count once it is loaded.

    Raises:
        TrainerError: it is installed and cannot be loaded.
    """
    limit, free = _limited_addresses()
    if free < _AMPLE_ADDRESSES + _THREAD_ADDRESSES * (os.cpu_count() or 1):
        logger.warning(
            "%s. If a library ends the run with a line of its own, such as 'libgomp: Thread creation failed' "
            "or 'std::bad_alloc', that is the cause.",
            limit,
        )
    try:
        with _signals_deferred():
            import torch  # noqa: F401
    except (ImportError, OSError) as error:
        if hidden := shadowed(error):
            raise TrainerError(hidden) from error
        cause = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise TrainerError(
            f"torch is installed and cannot be loaded: {cause}. Install it again: "
            "pip install --force-reinstall torch"
        ) from error


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Signals that Python handles come after this block.

    An exception such as KeyboardInterrupt that is raised within the start of torch's own libraries aborts the
    process ("terminate called after throwing an instance of ...").
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python handles signals in the main thread alone
        return
    came: list[int] = []
    handlers = {n: handler for n in signal.valid_signals() if callable(handler := signal.getsignal(n))}
    for number in handlers:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for arrived in came:
            signal.raise_signal(arrived)


def limit_openmp_spinning() -> None:
    """Let idle OpenMP threads sleep soon; to be called before torch is loaded.

    By default they spin for milliseconds. On a machine that others use too, the thread that they wait for may
    not have a processor: then each of the many small products of an update takes that long.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")


def _limited_addresses() -> tuple[str, float]:
    """A sentence about the limit of addresses (`ulimit -v`), and the bytes that are left: inf without one.

    Native code ends the process itself where it gets no memory for a library, a thread or a value, and names
    no cause: `libgomp: Thread creation failed`, `std::bad_alloc`.
    """
    if sys.platform == "win32":
        return "", math.inf
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return "", math.inf
    import psutil

    state = f"The addresses of this process are limited to {limit / 2**30:.1f} GiB (ulimit -v)"
    return state, limit - psutil.Process().memory_info().vms


def _torch_version() -> str:
    """The version of torch that is installed, such as 2.9.0+cpu."""
    wanted = ".".join(map(str, OLDEST_TORCH))
    try:
        found = version("torch")
    except PackageNotFoundError:
        found = ""
    if not found or find_spec("torch") is None:
        raise TrainerError(f'torch is not installed for this Python: pip install "torch>={wanted}"')
    numbers = re.match(r"(\d+)\.(\d+)", found)
    if numbers and (int(numbers[1]), int(numbers[2])) < OLDEST_TORCH:
        raise TrainerError(
            f'torch {found} is too old, Lanista needs {wanted} or newer: pip install "torch>={wanted}"'
        )
    return found


def _no_device(device: str | None, cause: str) -> TrainerError:
    return TrainerError(
        f"The device {device!r} (torch_settings.device, --torch-device) cannot be used here: {cause}. "
        "Leave it out to take a GPU if there is one, or give cpu."
    )
