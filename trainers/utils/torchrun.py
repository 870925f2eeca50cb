"""The environment variables by which `torchrun`, or a script, tells a process which rank of a run it is."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from .errors import TrainerError

_REQUIRED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_ADVICE = (
    "torchrun sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each of its processes. To train without "
    "it, unset WORLD_SIZE and RANK; --learners N starts N learners by itself."
)


class LaunchedRank(NamedTuple):
    """One of the ranks that were launched."""

    rank: int
    world_size: int
    local_rank: int
    """Its number among those of its machine."""
    local_size: int | None
    """How many of them are on its machine; None: nobody has said so."""
    address: str
    """Of the store at which the ranks meet."""
    port: int

    @property
    def on_one_machine(self) -> bool:
        """Whether all ranks are on this machine."""
        return self.local_size == self.world_size


def launched_rank() -> LaunchedRank | None:
    """The rank that this process was launched as; None where it started alone.

    An empty variable counts as one that is not set, and so does RANK alone: other programs use that name too.

    Raises:
        TrainerError: a variable is missing, or has a value that none of the ranks can have.
    """
    given = {name: text for name in _REQUIRED if (text := os.environ.get(name, "").strip())}
    if given.get("WORLD_SIZE") == "1" or ("WORLD_SIZE" not in given and len(given) < len(_REQUIRED) - 1):
        return None
    missing = [name for name in _REQUIRED if name not in given]
    if missing:
        found = ", ".join(f"{name}={text}" for name, text in given.items())
        raise TrainerError(f"Environment variables: found {found} without {' and '.join(missing)}. {_ADVICE}")
    world_size = _number("WORLD_SIZE", 1, None)
    local_size = _number("LOCAL_WORLD_SIZE", 1, world_size) if os.environ.get("LOCAL_WORLD_SIZE") else None
    rank = _number("RANK", 0, world_size - 1)
    local_rank = rank
    if os.environ.get("LOCAL_RANK"):
        local_rank = _number("LOCAL_RANK", 0, (local_size or world_size) - 1)
    port = _number("MASTER_PORT", 1, 65535)
    return LaunchedRank(rank, world_size, local_rank, local_size, given["MASTER_ADDR"], port)


def _number(name: str, least: int, most: int | None) -> int:
    """The value of a variable, which is to be a whole number between these two."""
    text = os.environ[name].strip()
    number = int(text) if re.fullmatch(r"[0-9]{1,9}", text) else -1
    if number < least or (most is not None and number > most):
        between = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise TrainerError(
            f"Environment variables: found {name}={text[:40]!r}, expected a whole number {between}. {_ADVICE}"
        )
    return number
