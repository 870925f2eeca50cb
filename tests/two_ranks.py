"""Two ranks of one run, as forks of this process: nothing has to be imported again."""

from __future__ import annotations

import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lanista.trainers.utils import distributed

RANKS = 2
TIMEOUT = 120.0
"""Seconds after which a rank counts as stuck; only then a test fails by time."""


def fork(folder: Path, function: Callable[[int], Any], statuses: tuple[int, int] = (0, 0)) -> list[Any]:
    """Call `function(rank)` in two forks of this process; what they return, None of one that ends early.

    Args:
        folder: for files.
        function: what it returns is written by `torch.save`.
        statuses: the exit statuses that are expected.
    """
    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_call, args=(folder, function, rank)) for rank in range(RANKS)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(TIMEOUT)
        if process.is_alive():
            process.kill()
    found = tuple(process.exitcode for process in processes)
    assert found == statuses, "\n".join(path.read_text() for path in sorted(folder.glob("error-*"))) or found
    files = [folder / f"returned-{rank}.pt" for rank in range(RANKS)]
    return [torch.load(file, weights_only=False) if file.exists() else None for file in files]


def _call(folder: Path, function: Callable[[int], Any], rank: int) -> None:
    torch.set_num_threads(1)
    try:
        torch.save(function(rank), folder / f"returned-{rank}.pt")
    except BaseException:
        (folder / f"error-{rank}").write_text(traceback.format_exc())
        raise


def together(folder: Path, function: Callable[[int], Any], statuses: tuple[int, int] = (0, 0)) -> list[Any]:
    """The same within a process group."""

    def joined(rank: int) -> Any:
        with distributed.process_group(rank, RANKS, "cpu", rendezvous=str(folder / "store")):
            return function(rank)

    return fork(folder, joined, statuses)


def launch(folder: Path, function: Callable[[int], Any], statuses: tuple[int, int] = (0, 0)) -> list[Any]:
    """The same, where each finds in its environment what `torchrun` puts there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = {"WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS)}

    def launched(rank: int) -> Any:
        os.environ |= {"RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **world}
        return function(rank)

    return fork(folder, launched, statuses)
