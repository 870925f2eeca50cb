"""The ranks of a run: processes that step environments of their own and make every optimizer step together.

These are the collective calls of `torch.distributed` as the trainers need them. Every rank makes the same
calls in the same order. In a run of one rank each of them is a no-op, and so it is after a rank was lost:
this one can then still save its state.
"""

from __future__ import annotations

import hmac
import os
import pickle
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from .errors import ProcessLostError, TrainerError
from .torchrun import launched_rank

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import Work

T = TypeVar("T")
TIMEOUT = timedelta(minutes=30)
"""A rank may wait for another one's evaluation, or for the restart of its engines."""
_SIGNATURE_BYTES = 32
CHECK_SECONDS = 0.05
"""Seconds between looks at whether those that are awaited are still there; signals are handled then too."""
GPU_PAUSE = 0.0005
"""Seconds between looks at whether GPUs have finished a collective call."""


class RankLostError(ProcessLostError):
    """Another rank has ended, or does not answer."""


@dataclass
class _World:
    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """The number of this process among the ranks of its machine."""
    local_size: int = 1
    connected: bool = False
    describe: Callable[[RuntimeError], str] = str
    """The sentence about a lost rank, given the error of a collective call."""
    check: Callable[[float], None] | None = None
    """The argument `check` of `process_group`."""
    key: bytes = b""
    """Known to the ranks alone, if they met at a file."""
    exchanged: int = 0
    """How many Python objects were sent from rank to rank."""
    under_way: bool = False
    """Whether a collective call was begun, and has not ended."""
    ending: bool = False
    """Whether the user wants the run to end."""


_world = _World()


def rank() -> int:
    """The number of this process among those of its run; rank 0 writes the files."""
    return _world.rank


def world_size() -> int:
    """How many ranks the run has."""
    return _world.size


def local_size() -> int:
    """How many ranks share this machine; all of the run, unless `torchrun` says otherwise."""
    return _world.local_size


def local_rank() -> int:
    """The number of this process among the ranks of its machine, and that of its GPU."""
    return _world.local_rank


def connected() -> bool:
    """Whether this run has several ranks, and none was lost."""
    return _world.connected


def leave() -> None:
    """Make no more collective calls: from here on this rank does something else than the others."""
    _world.connected = False


def end(asked: bool = True) -> None:
    """Note that the user wants the run to end; a signal's handler may call this, and any thread."""
    _world.ending = asked


def ending() -> bool:
    """Whether the user wants the run to end, as this rank, or another one, has learned."""
    return _world.ending


def exit_process(status: int) -> NoReturn:
    """End this process; without more ado where a rank was given up while it was awaited.

    For that rank torch would still wait as it frees its memory, and `torchrun` ends it if this one fails.
    """
    if _world.under_way:
        status = status or int(launched_rank() is not None)
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def seed_of(run_seed: int, number: int) -> int:
    """The seed of a run's part of this number: run_seed + number, from 0 again where 31 bits end.

    That is what a message to an engine holds.
    """
    return (run_seed + number) % 2**31


def shard(count: int) -> range:
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
    check: Callable[[float], None] | None = None,
    release: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Make this process one rank of several in the context.

    Tensors on the CPU are exchanged by gloo, those on GPUs by NCCL.

    Args:
        rank: this process's rank.
        world_size: how many ranks there are.
        device: "cpu" or "cuda", that of all ranks.
        rendezvous: the file by which the ranks find each other; they then connect over loopback.
            None: as the variables of `torchrun` say.
        describe: the sentence about a lost rank, given the error of a collective call.
        check: called now and then while the others are awaited, with the seconds so far; raises RankLostError
            where one is not to be awaited any more.
        release: ends the other ranks if this one leaves while it awaits them; without that torch goes on
            waiting.

    Raises:
        TrainerError: this torch has no such backend.
        RankLostError: a rank did not come.
    """
    from torch import distributed as dist

    require_backend(device)
    launched = launched_rank() if rendezvous is None else None
    if launched is None or launched.on_one_machine:
        _connect_over_loopback(only=launched is None)
    if device == "cuda":  # otherwise NCCL's watchdog aborts the process without an exception
        os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")

    def join() -> None:
        store = None if rendezvous is None else _store_in(rendezvous, rank, world_size)
        _world.key, _world.exchanged = b"" if store is None else store.get("key"), 0
        backend = "gloo" if device == "cpu" else "cpu:gloo,cuda:nccl"
        dist.init_process_group(backend, None, TIMEOUT, world_size, rank, store)  # type: ignore[arg-type]

    _world.under_way = False
    try:
        _wait_beside(join, check)
    except RuntimeError as error:
        raise RankLostError(describe(error)) from error
    _world.rank, _world.size, _world.connected, _world.describe = rank, world_size, True, describe
    _world.local_rank = rank if launched is None else launched.local_rank
    _world.local_size = (launched and launched.local_size) or world_size
    _world.check = check
    try:
        yield
        # No rank closes its connections while another one still reads from them. Results are complete by now.
        with suppress(RankLostError):
            sums(0.0)
    finally:
        _world.rank, _world.size, _world.connected = 0, 1, False
        _world.local_rank, _world.local_size = 0, 1
        if _world.under_way:
            release()
        if not _world.under_way:
            dist.destroy_process_group()


def _store_in(file: str, rank: int, world_size: int) -> Store:
    """The store of ranks that meet at a file, with the key that they sign by."""
    from torch import distributed as dist

    store = dist.FileStore(file, world_size)  # type: ignore[attr-defined]
    store.set_timeout(TIMEOUT)
    if rank == 0:
        store.set("key", secrets.token_hex(32))
    found: Store = store
    return found


def _connect_over_loopback(only: bool) -> None:
    """Let gloo and NCCL listen on the loopback interface; `only`: whatever the user's variables say."""
    names = [name for _, name in socket.if_nameindex()] if hasattr(socket, "if_nameindex") else []
    loopback = next((name for name in names if name in ("lo", "lo0")), "lo")
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        if only or variable not in os.environ:
            os.environ[variable] = loopback


def _wait_beside(call: Callable[[], None], check: Callable[[float], None] | None) -> None:
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
    began = time.monotonic()
    while thread.is_alive():
        thread.join(CHECK_SECONDS)
        if check is not None:
            check(time.monotonic() - began)
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


def _collective(call: Callable[..., Work | None], tensor: Tensor, *arguments: Any) -> None:
    """Make a collective call and wait for its end, while signals are handled and the others are watched.

    Others may come minutes later: after an evaluation, or a restart of their engines.
    """
    _world.under_way = True
    began = time.monotonic()
    try:
        work = call(tensor, *arguments, async_op=True)
        assert work is not None, "this process is a rank"
        is_over = _gpus_are_done if tensor.is_cuda else _is_over
        while not is_over(work):
            if _world.check is not None:
                _world.check(time.monotonic() - began)
    except RuntimeError as error:
        _world.connected = _world.under_way = False
        raise RankLostError(_world.describe(error)) from error
    except RankLostError:
        _world.connected = False
        raise
    _world.under_way = False


def _is_over(work: Work) -> bool:
    """Wait for a call at most `CHECK_SECONDS`; whether it is over. Raises its RuntimeError if it failed."""
    try:
        work.wait(timedelta(seconds=CHECK_SECONDS))
    except RuntimeError:  # that time is over too
        if not work.is_completed():
            return False
        work.wait()
    return True


def _gpus_are_done(work: Work) -> bool:
    """Like `_is_over`, but for NCCL, which gives a call up for good when a wait is over."""
    deadline = time.monotonic() + CHECK_SECONDS
    while not work.is_completed():
        if time.monotonic() > deadline:
            return False
        time.sleep(GPU_PAUSE)
    work.wait()
    return True


class Store(Protocol):
    """What torch's stores have in common, as far as it is needed."""

    def set(self, key: str, value: str) -> None:
        """Set an entry."""

    def get(self, key: str) -> bytes:
        """An entry; waits until there is one."""

    def check(self, keys: list[str]) -> bool:
        """Whether there are entries of all these keys."""


def shared_store() -> Store:
    """A store of this run's ranks alone, beside that at which `torchrun` has let them meet."""
    from torch import distributed as dist

    launched = launched_rank()
    assert launched is not None, "torchrun has started this process"
    prefix = broadcast(f"lanista-{secrets.token_hex(8)}")  # another run may have used the store before
    connect = dist.TCPStore  # type: ignore[attr-defined]
    store = connect(launched.address, launched.port, is_master=False, timeout=TIMEOUT, wait_for_workers=False)
    own: Store = dist.PrefixStore(prefix, store)  # type: ignore[attr-defined]
    return own


# Collective calls: each raises RankLostError where a rank has ended ----------------------------------------


def all_reduce_mean(tensor: Tensor) -> None:
    """Make a tensor, such as a gradient, the mean over all ranks, in place."""
    if _world.connected:
        all_reduce_sum(tensor)
        tensor.div_(_world.size)


def all_reduce_sum(tensor: Tensor) -> None:
    """Make a tensor the sum over all ranks, in place."""
    if _world.connected:
        from torch import distributed as dist

        _collective(dist.all_reduce, tensor)


def all_reduce_max(tensor: Tensor) -> None:
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
    all_reduce_sum(tensor)
    result: list[float] = tensor.tolist()
    return result


def all_true(condition: bool) -> bool:
    """Whether a condition holds on every rank."""
    return condition if not _world.connected else sums(float(condition))[0] == _world.size


def in_step(minibatches: Iterable[T]) -> Iterable[T]:
    """The minibatches of one epoch, as long as every rank has another one.

    Ranks collect unequal numbers of steps, and a gradient is reduced over all ranks or none.
    """
    return _in_step(minibatches) if _world.connected else minibatches


def _in_step(minibatches: Iterable[T]) -> Iterator[T]:
    for minibatch in minibatches:
        if not all_true(True):
            return
        yield minibatch
    all_true(False)


def broadcast(value: T) -> T:
    """Rank 0's value, which can be pickled, on every rank."""
    return _sent_by(0, value) if _world.connected else value


def gather(value: T) -> list[T]:
    """The values of all ranks in their order."""
    return [_sent_by(rank, value) for rank in range(_world.size)] if _world.connected else [value]


def _sent_by(sender: int, value: T) -> T:
    """What one rank gives, on every rank.

    gloo asks nobody who calls on its ports. So an object is read only if it is signed with the run's key.
    """
    import torch
    from torch import distributed as dist

    _world.exchanged += 1
    sent = b""
    if sender == _world.rank:
        pickled = pickle.dumps(value)
        sent = _signature(pickled) + pickled
    size = int(sums(len(sent))[0])
    data = bytearray(sent or size)
    _collective(dist.broadcast, torch.frombuffer(data, dtype=torch.uint8), sender)
    pickled = bytes(memoryview(data)[_SIGNATURE_BYTES:])
    if not hmac.compare_digest(data[:_SIGNATURE_BYTES], _signature(pickled)):
        _world.connected = False
        raise RankLostError(
            f"What has come from the learner {sender} of {_world.size} is not signed by this run: another "
            "program has called on the ports by which learners exchange gradients (SECURITY.md)."
        )
    received: T = pickle.loads(pickled)  # noqa: S301 (signed by a process of this run)
    return received


def _signature(pickled: bytes) -> bytes:
    """The signature of the object that is exchanged now, so that none can be sent again."""
    return hmac.digest(_world.key, _world.exchanged.to_bytes(8, "big") + pickled, "sha256")
