"""How the processes of a run's learners meet.

How far each learner has come, in a file that all see: so it is known who keeps others waiting.
"""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from pathlib import Path

import numpy as np
from torch import distributed as dist

from ...utils.errors import TrainerError

STORE = "store"
"""The file by which they find each other, in a folder that no other user can enter."""


def join(folder: Path, rank: int, size: int, device: str, patience: float) -> None:
    """Become a member of the group; returns when all have.

    Numbers on the CPU go by gloo, over this machine's loopback interface; those on GPUs by NCCL.

    Args:
        folder: where the members meet.
        rank: of this process.
        size: how many there are.
        device: "cpu" or "cuda", of all.
        patience: seconds within which every exchange must have ended.

    Raises:
        TrainerError: this torch cannot do it.
        RuntimeError: somebody did not come.
    """
    require_distributed(device)
    # A torch without this module trains as well, by one learner.
    from torch._C._distributed_c10d import FileStore

    loopback = _loopback()
    if loopback:
        for library in ("GLOO", "NCCL"):
            os.environ.setdefault(f"{library}_SOCKET_IFNAME", loopback)
    if device == "cuda":  # else a learner that does not come ends the others' processes, without a word
        os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")
    dist.init_process_group(
        "gloo" if device == "cpu" else "cpu:gloo,cuda:nccl",
        store=FileStore(str(folder / STORE), size),
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=patience),
    )


def leave() -> None:
    """Leave the group, if this process is in one."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def require_distributed(device: str) -> None:
    """Refuse a torch that was built without what learners exchange their gradients by.

    Raises:
        TrainerError: saying what is missing.
    """
    there = dist.is_available() and dist.is_gloo_available()
    if not there or (device == "cuda" and not dist.is_nccl_available()):
        lacking = "gloo" if not there else "NCCL"
        raise TrainerError(
            f"torch_settings.learners (--learners) needs torch.distributed with {lacking}, and this torch "
            "was built without it. Set learners to 1."
        )


def _loopback() -> str | None:
    """The name of the interface that leads back to this machine."""
    names = [name for _, name in socket.if_nameindex()] if hasattr(socket, "if_nameindex") else []
    return next((name for name in names if name in ("lo", "lo0")), None)


FILE = "progress"


class Progress:
    """Counts of exchanges, of each learner: [size] int64."""

    def __init__(self, folder: Path, rank: int, size: int) -> None:
        """Open the file in `folder`; the first learner makes it."""
        path = folder / FILE
        mode = "w+" if rank == 0 else "r+"
        self._counts = np.memmap(path, np.int64, mode, shape=(size,))  # type: ignore[call-overload]
        self._rank = rank

    def entered(self) -> None:
        """This learner has come to its next exchange."""
        self._counts[self._rank] += 1

    def behind(self) -> list[int]:
        """Who has not come to the exchange in which this learner waits."""
        counts = self._counts.tolist()
        return [rank for rank, count in enumerate(counts) if count < counts[self._rank]]
