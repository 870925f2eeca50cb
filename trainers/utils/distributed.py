"""The ranks of a run: processes that step environments of their own and make every optimizer step together.

These are the collective calls of `torch.distributed` as the trainers need them. Every rank makes the same
calls in the same order. In a run of one rank each of them is a no-op, and so it is after a rank was lost:
this one can then still save its state.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import TrainerError

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
TIMEOUT = timedelta(minutes=30)
"""A rank may wait for another one's evaluation, or for the restart of its engines."""
CHECK_SECONDS = 0.05
"""Between looks at whether those that are awaited are still there."""
LONGEST_PAUSE = 0.002
"""Seconds between looks at whether all ranks have come."""
TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Environment variables with which `torchrun` starts each rank."""


class RankLostError(TrainerError):
    """Another rank has ended, or does not answer."""


@dataclass
class _World:
    rank: int = 0
    size: int = 1
    connected: bool = False
    describe: Callable[[RuntimeError], str] = str
    """The sentence about a lost rank, given the error of a collective call."""


_world = _World()


def rank() -> int:
    """The number of this process among those of its run; rank 0 writes the files."""
    return _world.rank


def world_size() -> int:
    """How many ranks the run has."""
    return _world.size


def local_size() -> int:
    """How many ranks share this machine; all of the run, unless `torchrun` says otherwise."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", world_size())) if world_size() > 1 else 1


def connected() -> bool:
    """Whether this run has several ranks, and none was lost."""
    return _world.connected


def leave() -> None:
    """Make no more collective calls: from here on this rank does something else than the others."""
    _world.connected = False


def launched_ranks() -> tuple[int, int] | None:
    """Rank and world size that `torchrun` has given this process; None where it started alone."""
    if any(name not in os.environ for name in TORCHRUN) or int(os.environ["WORLD_SIZE"]) < 2:
        return None
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def seed_of(run_seed: int, number: int) -> int:
    """The seed of a run's part of this number: run_seed + number, from 0 again where 31 bits end.

    That is what a message to an engine holds.
    """
    return (run_seed + number) % 2**31


def share(count: int) -> range:
    """This rank's consecutive part of `count` things, such as environments."""
    return range(count * _world.rank // _world.size, count * (_world.rank + 1) // _world.size)


@contextmanager
def process_group(
    rank: int,
    world_size: int,
    device: str,
    *,
    rendezvous: str | None = None,
    describe: Callable[[RuntimeError], str] = str,
    check: Callable[[], None] | None = None,
) -> Iterator[None]:
    """Within, this process is one rank of several.

    Tensors on the CPU are exchanged by gloo, those on GPUs by NCCL.

    Args:
        rank: of this process.
        world_size: how many ranks there are.
        device: "cpu" or "cuda", of all.
        rendezvous: the file by which the ranks find each other; they then connect over loopback.
            None: as the variables of `torchrun` say.
        describe: the sentence about a lost rank, given the error of a collective call.
        check: called now and then while the others are awaited, which no connection shows yet; raises
            RankLostError where one has ended.

    Raises:
        TrainerError: this torch has no such backend.
        RankLostError: a rank did not come.
    """
    from torch import distributed as dist

    require_backend(device)
    if rendezvous is not None or os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE"):
        names = [name for _, name in socket.if_nameindex()] if hasattr(socket, "if_nameindex") else []
        loopback = next((name for name in names if name in ("lo", "lo0")), "lo")
        for library in ("GLOO", "NCCL"):
            os.environ.setdefault(f"{library}_SOCKET_IFNAME", loopback)
    if device == "cuda":  # otherwise NCCL's watchdog aborts the process without an exception
        os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")
    join = partial(
        dist.init_process_group,
        "gloo" if device == "cpu" else "cpu:gloo,cuda:nccl",
        init_method="env://" if rendezvous is None else Path(rendezvous).as_uri(),
        rank=rank,
        world_size=world_size,
        timeout=TIMEOUT,
    )
    try:
        if check is None:
            join()
        else:
            _wait_beside(join, check)
    except RuntimeError as error:
        raise RankLostError(describe(error)) from error
    _world.rank, _world.size, _world.connected, _world.describe = rank, world_size, True, describe
    try:
        yield
        # No rank closes its connections while another one still reads from them. Results are complete by now.
        with suppress(RankLostError):
            sums(0.0)
    finally:
        _world.rank, _world.size, _world.connected = 0, 1, False
        dist.destroy_process_group()


def _wait_beside(call: Callable[[], None], check: Callable[[], None]) -> None:
    """Make a call that cannot be interrupted, and look meanwhile whether it will end at all.

    If `check` raises, the call is left to itself: its thread ends with this process at the latest.
    """
    errors: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="joins the other ranks", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(CHECK_SECONDS)
        check()
    if errors:
        raise errors[0]


def require_backend(device: str) -> None:
    """Refuse a torch that was built without what ranks exchange their gradients by.

    Raises:
        TrainerError: saying what is missing.
    """
    from torch import distributed as dist

    has_gloo = dist.is_available() and dist.is_gloo_available()
    if not has_gloo or (device == "cuda" and not dist.is_nccl_available()):
        lacking = "NCCL" if has_gloo else "gloo"
        raise TrainerError(
            f"torch_settings.learners (--learners) needs torch.distributed with {lacking}, and this torch "
            "was built without it. Set learners to 1."
        )


def _collective(call: Callable[..., Any], *arguments: Any, **keywords: Any) -> None:
    try:
        call(*arguments, **keywords)
    except RuntimeError as error:
        _world.connected = False
        raise RankLostError(_world.describe(error)) from error


# Collective calls: each raises RankLostError where a rank has ended ----------------------------------------


def average(tensor: Tensor) -> None:
    """Make a tensor, such as a gradient, the mean over all ranks, in place."""
    if _world.connected:
        add_up(tensor)
        tensor.div_(_world.size)


def add_up(tensor: Tensor) -> None:
    """Make a tensor the sum over all ranks, in place."""
    if _world.connected:
        from torch import distributed as dist

        _collective(dist.all_reduce, tensor)


def largest(tensor: Tensor) -> None:
    """Make a tensor the greatest over all ranks, in place."""
    if _world.connected:
        from torch import distributed as dist

        _collective(dist.all_reduce, tensor, dist.ReduceOp.MAX)


def sums(*numbers: float) -> list[float]:
    """The sums of numbers over all ranks."""
    if not _world.connected:
        return list(numbers)
    import torch

    tensor = torch.tensor(numbers, dtype=torch.float64)
    add_up(tensor)
    result: list[float] = tensor.tolist()
    return result


def meet(*numbers: float) -> list[float]:
    """As `sums`, where others may come seconds or minutes later: signals are handled meanwhile."""
    if not _world.connected:
        return list(numbers)
    import torch
    from torch import distributed as dist

    tensor = torch.tensor(numbers, dtype=torch.float64)
    pause = 0.0
    try:
        work = dist.all_reduce(tensor, async_op=True)
        while not work.is_completed():
            time.sleep(pause)
            pause = min(pause + 1e-5, LONGEST_PAUSE)
        work.wait()
    except RuntimeError as error:
        _world.connected = False
        raise RankLostError(_world.describe(error)) from error
    result: list[float] = tensor.tolist()
    return result


def everywhere(condition: bool) -> bool:
    """Whether a condition holds on every rank."""
    return condition if not _world.connected else sums(float(condition))[0] == _world.size


def in_step(minibatches: Iterable[T]) -> Iterable[T]:
    """The minibatches of one epoch, as long as every rank has another one.

    Ranks collect unequal numbers of steps, and a gradient is reduced over all ranks or none.
    """
    return _in_step(minibatches) if _world.connected else minibatches


def _in_step(minibatches: Iterable[T]) -> Iterator[T]:
    for minibatch in minibatches:
        if not everywhere(True):
            return
        yield minibatch
    everywhere(False)


def broadcast(value: T) -> T:
    """Rank 0's value, which can be pickled, on every rank."""
    if not _world.connected:
        return value
    import torch
    from torch import distributed as dist

    values = [value]
    _collective(dist.broadcast_object_list, values, src=0, device=torch.device("cpu"))
    return values[0]


def gather(value: T) -> list[T]:
    """The values of all ranks in their order."""
    if not _world.connected:
        return [value]
    from torch import distributed as dist

    values: list[Any] = [None] * _world.size
    _collective(dist.all_gather_object, values, value)
    return values
