"""Kills a process in the middle of its saves, many times, and resumes from what it left behind.

    python tests/reliability/saves.py [--kills 1000] [--record]

First come kills at random instants, then one before every file operation of a save. Every kill is a SIGKILL;
every resumed process goes on in the same folder. Reported: how many of the runs resumed, from how many of
the kills that hit a save, and the largest number of checkpoints lost. Ends with status 1 when a run could
not be resumed, resumed with other weights than were saved, lost more than the checkpoint that was being
written, or no longer had the best checkpoint of all (every third save is better than all before it).
"""

from __future__ import annotations

import os
import random
import signal
import struct
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script
sys.path.append(str(Path(__file__).parent))

from figures import LANISTA, Recorder
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.checkpoints.manager import CheckpointManager
from lanista.trainers.checkpoints.status import TrainingStatus
from lanista.trainers.utils.atomic_files import atomic_write_bytes
from script_options import parse_options

KEEP = 3
OPERATIONS = frozenset({"open", "os.rename", "os.remove", "os.mkdir", "os.truncate"})
"""What Python's audit hooks call the operations that change a folder (writes happen between two of them)."""


def weights(step: int) -> torch.Tensor:
    """[64, 64] numbers that tell which save they belong to."""
    return torch.full((64, 64), float(step))


def judged(step: int) -> float | None:
    """The reward by which a save is the best so far, as every third one is."""
    return float(step) if step % 3 == 0 else None


def manager_of(folder: Path) -> tuple[CheckpointManager, int]:
    """A new process's manager over `folder`, and the step from which it resumes (0: there is nothing yet)."""
    status = TrainingStatus(folder / "run_logs" / "training_status.json")
    if status.path.exists():
        status.load()
    manager = CheckpointManager("Ball", folder, KEEP, status, keep_best=1)
    if not manager.any_saved:
        return manager, 0
    state = manager.load()
    step = int(state["global_step"])
    if not torch.equal(state["Policy"], weights(step)):
        raise AssertionError(f"resumed at step {step} with the weights of another one")
    manager.best.resume(step, state["judged"])
    return manager, step


def save_forever(folder: Path, pipe: int) -> None:
    """The process that is killed: resumes, then saves one checkpoint after another, reporting each."""
    manager, step = manager_of(folder)
    while True:
        step += 1
        os.write(pipe, struct.pack("<cq", b"b", step))
        manager.save(
            step,
            {"global_step": step, "Policy": weights(step), "judged": judged(step)},
            reward=float(step),
            export=lambda path: atomic_write_bytes(path, b"model" * 500),
            best_metric=judged(step),
        )
        os.write(pipe, struct.pack("<cq", b"e", step))


@dataclass
class Killed:
    """What a killed process had reported."""

    begun: int = 0
    ended: int = 0
    """The last save begun and the last one ended, 0 if none."""

    def read(self, data: bytes) -> None:
        """Read what came through the pipe."""
        for kind, step in struct.iter_unpack("<cq", data[: len(data) // 9 * 9]):
            if kind == b"b":
                self.begun = step
            else:
                self.ended = step


def run_and_kill(folder: Path, delay: float) -> Killed:
    """Let a process save, kill it `delay` seconds after it began its second save."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        save_forever(folder, writer)
    os.close(writer)
    killed = Killed()
    killed.read(_exactly(reader, 3 * 9))
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    killed.read(_rest(reader))
    os.close(reader)
    return killed


def run_to_operation(folder: Path, number: int) -> tuple[Killed, bool]:
    """Let a process kill itself before the `number`th file operation of its second save.

    The second value is False when that save had fewer operations.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _die_at_operation(number, writer)
        save_forever(folder, writer)
    os.close(writer)
    killed = Killed()
    killed.read(_rest(reader))
    os.waitpid(child, 0)
    os.close(reader)
    return killed, killed.begun != killed.ended


def _die_at_operation(number: int, pipe: int) -> None:
    count, begun, real_write = 0, 0, os.write

    def write(handle: int, data: bytes) -> int:
        nonlocal begun
        if handle == pipe:
            begun += data[:1] == b"b"
            if begun == 3:  # the second save ended without an operation of that number
                os.kill(os.getpid(), signal.SIGKILL)
        return real_write(handle, data)

    def hook(event: str, arguments: object) -> None:
        nonlocal count
        if begun == 2 and event in OPERATIONS:
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

    os.write = write  # type: ignore[assignment]
    sys.addaudithook(hook)


def _exactly(handle: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = os.read(handle, size - len(data))
        if not part:
            raise AssertionError("the saving process ended by itself")
        data += part
    return data


def _rest(handle: int) -> bytes:
    data = b""
    while part := os.read(handle, 65536):
        data += part
    return data


class Tally:
    """Resumes after every kill and counts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kills = self.inside = self.lost = 0

    def resume(self, killed: Killed) -> None:
        """Resume from what the killed process left. Raises AssertionError if that fails."""
        manager, step = manager_of(self.folder)
        self.kills += 1
        self.inside += killed.begun != killed.ended
        self.lost = max(self.lost, killed.begun - step)
        assert killed.ended <= step <= killed.begun, f"saved {killed.ended}, resumed from {step}"
        files = sorted(path.name for path in (self.folder / "Ball").iterdir())
        assert len(files) <= 2 * (KEEP + 4) + 1, f"files pile up: {files}"
        best = [entry.steps for entry in manager.best.entries]
        assert best == ([step // 3 * 3] if step >= 3 else []), f"at step {step} the best are {best}"
        if best:
            copy = load_checkpoint(self.folder / "Ball" / "Ball-best.pt")
            assert torch.equal(copy["Policy"], weights(best[0])), "the copy is of another one"
        for entry in manager.checkpoints:
            assert (self.folder / "Ball" / f"Ball-{entry.steps}.pt").exists(), (
                f"{entry.steps} is listed and gone"
            )


def typical_save(folder: Path) -> float:
    """Seconds that a save takes here."""
    manager, _ = manager_of(folder)
    begin = time.perf_counter()
    for step in range(1, 6):
        manager.save(step, {"global_step": step, "Policy": weights(step), "judged": None})
    return (time.perf_counter() - begin) / 5


def main() -> int:
    """Run as the module says."""
    kills = {"default": 25, "help": "kills at random instants"}
    seed, record = {"default": 0, "help": "of the instants"}, {"default": False, "help": "keep the figures"}
    arguments = parse_options(__doc__, kills=kills, seed=seed, record=record)
    recorder = Recorder(1, arguments.record)
    torch.set_num_threads(1)
    instants = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as scratch:
        seconds = typical_save(Path(scratch, "typical"))
        tally = Tally(Path(scratch, "random"))
        for _ in range(arguments.kills):
            tally.resume(run_and_kill(tally.folder, instants.uniform(0, 1.5 * seconds)))
        operations = Tally(Path(scratch, "operations"))
        number = 1
        while True:
            killed, reached = run_to_operation(operations.folder, number)
            operations.resume(killed)
            if not reached:
                break
            number += 1
    found = f"{tally.inside} of the kills hit a save, of {seconds * 1e3:.1f} ms"
    for case, each, seen in (
        ("saves alone, random instants", tally, found),
        ("saves alone, before each file operation", operations, f"of a save's {number - 1}"),
    ):
        recorder.add(
            case, LANISTA, each.kills, each.kills, worst=each.lost, unit="checkpoints lost", found=seen
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
