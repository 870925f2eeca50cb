"""Whether what a run collects fits into the memory of this machine."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from ...utils import distributed
from ...utils.errors import TrainerError
from .columns import ReplayLayout

logger = logging.getLogger(__name__)

_PROC, _CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
_NO_LIMIT = 1 << 60


def check_memory(name: str, layout: ReplayLayout, held: int = 0) -> int:
    """Log how much memory a replay will take when full, and return it.

    Args:
        name: the behavior's.
        layout: of its replay.
        held: bytes that it has already.

    Raises:
        TrainerError: it is more than is available.
    """
    wanted = layout.nbytes()
    parts = ", ".join(
        f"{sensor} {size_text(size)}"
        for sensor, size in zip(layout.sensors, layout.observation_bytes(), strict=True)
    )
    if (lacking := shortage(wanted - held)) is not None:
        left, culprit = lacking
        fitting = int(layout.capacity * left / max(wanted, 1))
        raise TrainerError(
            f"The behavior {name}: its replay of {layout.capacity:,} steps (buffer_size) takes "
            f"{size_text(wanted)} of memory when it is full ({parts}); {culprit} leaves "
            f"{size_text(left)}. Set hyperparameters.buffer_size to at most about {fitting:,}, send "
            "smaller images, or use a machine with more memory."
        )
    logger.info(
        "%s: the replay will take %s of memory when it holds %s steps (observations: %s).",
        name,
        size_text(wanted),
        f"{layout.capacity:,}",
        parts,
    )
    return wanted


def shortage(wanted: int) -> tuple[int, str] | None:
    """What may still be allocated, if it is less than these bytes, and what limits it; None: they fit."""
    least = least_room()
    return least if least is not None and wanted > least[0] else None


def least_room() -> tuple[int, str] | None:
    """The bytes that may still be allocated, and what limits them; None: nothing known does.

    The ranks of a machine share its memory: each gets the same part.
    """
    return min(_limits(), default=None)


def size_text(size: float) -> str:
    """A number of bytes as text: 7.06 GB, 12.3 MB, 528 bytes."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} bytes"


def _limits() -> Iterator[tuple[int, str]]:
    """Bytes that may still be allocated, and what limits them."""
    ranks = distributed.local_size()
    yield int(psutil.virtual_memory().available) // ranks, "the machine"
    for folder, limit, used, prefix in _cgroups():
        most, now = _number(folder / limit), _number(folder / used)
        if most is not None and now is not None and most < _NO_LIMIT:
            yield max(0, most - now + _of_files(folder, prefix)) // ranks, "the container (its cgroup)"
    yield from _address_limits()


def _cgroups() -> Iterator[tuple[Path, str, str, str]]:
    """The cgroups of this process up to the root, of both versions.

    Each with the names of the files of its limit and its usage, and the prefix in its statistics. A container
    sees its own as the root; the job of a batch system has one below.
    """
    own = {"": "/", "memory": "/"}
    try:
        for line in (_PROC / "self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            own.update(dict.fromkeys({"", "memory"} & set(controllers.split(",")), path))
    except (OSError, ValueError):  # not Linux: no cgroups
        pass
    for root, path, *names in (
        (_CGROUP, own[""], "memory.max", "memory.current", ""),
        (_CGROUP / "memory", own["memory"], "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    ):
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts), -1, -1):
            limit, used, prefix = names
            yield root.joinpath(*parts[:depth]), limit, used, prefix


def _of_files(cgroup: Path, prefix: str) -> int:
    """Bytes of cached files in a cgroup's usage, which the kernel frees before it refuses an allocation."""
    wanted = (f"{prefix}inactive_file", f"{prefix}active_file")
    try:
        lines = [line.split() for line in (cgroup / "memory.stat").read_text().splitlines()]
        return sum(int(number) for name, number in lines if name in wanted)
    except (OSError, ValueError):
        return 0


def _address_limits() -> Iterator[tuple[int, str]]:
    """What `ulimit -v` and `ulimit -d` leave."""
    if sys.platform == "win32":
        return
    import resource

    pages = _number(_PROC / "self/statm")
    if pages is None:
        return
    used = pages * resource.getpagesize()
    for kind, name in ((resource.RLIMIT_AS, "ulimit -v"), (resource.RLIMIT_DATA, "ulimit -d")):
        most = resource.getrlimit(kind)[0]
        if most not in (resource.RLIM_INFINITY, -1):
            yield max(0, most - used), f"the limit of this process ({name})"


def _number(path: Path) -> int | None:
    """The first number in a file; None without such a file or number."""
    try:
        return int(path.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
