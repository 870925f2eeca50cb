"""Whether the memory of this machine holds a replay."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

from ..errors import TrainerError
from .layout import ReplayLayout

logger = logging.getLogger(__name__)

_PROC, _CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
_NO_LIMIT = 1 << 60


def require_room(name: str, layout: ReplayLayout, held: int = 0) -> int:
    """Say how much memory a replay will take, in all.

    Args:
        name: the behaviour's.
        layout: of its replay.
        held: bytes that it holds already.

    Raises:
        TrainerError: more than there is.
    """
    wanted = layout.nbytes()
    parts = ", ".join(
        f"{sensor} {size_text(size)}"
        for sensor, size in zip(layout.sensors, layout.observation_bytes(), strict=True)
    )
    limits = list(_limits())
    least = min(limits, default=None)
    if least is not None and wanted - held > least[0]:
        fitting = int(layout.capacity * least[0] / max(wanted, 1))
        raise TrainerError(
            f"The behavior {name}: its replay of {layout.capacity:,} steps (buffer_size) takes "
            f"{size_text(wanted)} of memory when it is full ({parts}); {least[1]} leaves "
            f"{size_text(least[0])}. Set hyperparameters.buffer_size to at most about {fitting:,}, send "
            "smaller pictures, or use a machine with more memory."
        )
    logger.info(
        "%s: the replay will take %s of memory when it holds %s steps (observations: %s).",
        *(name, size_text(wanted), f"{layout.capacity:,}", parts),
    )
    return wanted


def size_text(size: float) -> str:
    """Bytes in words: 7.06 GB, 12.3 MB."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size / 1e3:.3g} kB"


def _limits() -> Iterator[tuple[int, str]]:
    """Bytes that may still be taken, and what allows no more."""
    available = _available()
    if available is not None:
        yield available, "the machine"
    for limit, used in (
        (_CGROUP / "memory.max", _CGROUP / "memory.current"),
        (_CGROUP / "memory/memory.limit_in_bytes", _CGROUP / "memory/memory.usage_in_bytes"),
    ):
        most, now = _number(limit), _number(used)
        if most is not None and now is not None and most < _NO_LIMIT:
            yield max(0, most - now), "the container (its cgroup)"
    yield from _address_limits()


def _available() -> int | None:
    try:
        for line in (_PROC / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _address_limits() -> Iterator[tuple[int, str]]:
    """What `ulimit -v` and `ulimit -d` leave."""
    try:
        import resource
    except ImportError:  # Windows has none
        return
    pages = _number(_PROC / "self/statm")
    if pages is None:
        return
    used = pages * resource.getpagesize()
    for kind, name in ((resource.RLIMIT_AS, "ulimit -v"), (resource.RLIMIT_DATA, "ulimit -d")):
        most = resource.getrlimit(kind)[0]
        if most not in (resource.RLIM_INFINITY, -1):
            yield max(0, most - used), f"the limit of this process ({name})"


def _number(path: Path) -> int | None:
    """The first number in a file; None where there is no such file, or no number in it."""
    try:
        return int(path.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
