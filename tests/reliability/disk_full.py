"""Fills the disk during saves and logging: the run must go on and the older files stay as they were.

    python tests/reliability/disk_full.py [--rounds 50]

Where a small file system may be mounted (Linux, as root) it is a real one that fills up; elsewhere the
kernel is asked to let no file grow beyond a limit. Ends with status 1 when a save raised, an older checkpoint
changed, a half-written file stayed, or the run did not recover once there was room again.
"""

from __future__ import annotations

import logging
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script

from lanista.envs.base import StatsAggregationMethod
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.checkpoints.manager import CheckpointManager
from lanista.trainers.checkpoints.status import TrainingStatus
from lanista.trainers.stats.reporter import StatsReporter
from lanista.trainers.stats.tensorboard import TensorBoardWriter
from lanista.trainers.utils.atomic_files import atomic_write_bytes
from script_options import parse_options

SIZE = 512 * 1024
Shortage = Callable[[Path, int], AbstractContextManager[None]]


@contextmanager
def mounted(folder: Path, size: int = SIZE, inodes: int | None = None) -> Iterator[bool]:
    """Mount a file system of `size` bytes, and of so many inodes, at `folder`, if that is allowed."""
    limits = f"size={size}" + (f",nr_inodes={inodes}" if inodes else "")
    command = ["mount", "-t", "tmpfs", "-o", limits, "tmpfs", str(folder)]
    try:
        allowed = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        allowed = False
    try:
        yield allowed
    finally:
        if allowed:
            subprocess.run(["umount", str(folder)], check=True)


@contextmanager
def ballast(folder: Path, free: int) -> Iterator[None]:
    """Leave `free` bytes on the file system of `folder`."""
    room = os.statvfs(folder)
    path = folder / "ballast"
    path.write_bytes(bytes(max(room.f_bavail * room.f_frsize - free, 0)))
    try:
        yield
    finally:
        path.unlink()


@contextmanager
def size_limit(folder: Path, free: int) -> Iterator[None]:
    """Let no file of this process grow beyond `free` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class Run:
    """The files of one behavior, written as a training run writes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manager = CheckpointManager("Ball", folder, 3, TrainingStatus(folder / "training_status.json"))
        self.curves = TensorBoardWriter(folder)
        self.reporter = StatsReporter("Ball", [self.curves])

    def save(self, step: int) -> bool:
        """A summary and a checkpoint; whether the checkpoint was saved."""
        self.reporter.add_stats(
            "Environment/Cumulative Reward", [step, 1.0], StatsAggregationMethod.HISTOGRAM
        )
        self.reporter.write_stats(step)
        state = {"global_step": step, "Policy": torch.full((64, 64), float(step))}
        saved = self.manager.save(step, state, 1.0, lambda path: atomic_write_bytes(path, bytes(9000)))
        return saved is not None

    def checkpoints(self) -> dict[Path, bytes]:
        """Every numbered checkpoint."""
        return {path: path.read_bytes() for path in (self.folder / "Ball").glob("Ball-*.pt")}


def round_of(run: Run, step: int, free: int, shortage: Shortage) -> bool:
    """Save in a shortage and again without; whether the first one failed."""
    before = run.checkpoints()
    with shortage(run.folder, free):
        saved = run.save(step)
    after = run.checkpoints()
    newest = int(load_checkpoint(run.manager.latest_path)["global_step"])
    assert newest == (step if saved else step - 1), f"resumes from {newest}"
    if not saved:
        assert after == before, "an older checkpoint changed"
    assert not list(run.folder.rglob(".*.partial")), "a half-written file stayed"
    assert run.save(step + 1), "no recovery once there was room"
    return not saved


def main() -> int:
    """Run as the module says."""
    rounds = {"default": 50, "help": "saves in a shortage"}
    arguments = parse_options(__doc__, rounds=rounds, seed={"default": 0, "help": "of the room that is left"})
    logging.disable(logging.WARNING)
    rooms = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as scratch, mounted(Path(scratch)) as real:
        shortage = ballast if real else size_limit
        run = Run(Path(scratch) / "run")
        with closing(run.curves):
            run.save(1)
            failed = sum(
                round_of(run, 2 + 2 * number, rooms.randrange(0, 80_000 if real else 20_000), shortage)
                for number in range(arguments.rounds)
            )
    kind = "a full file system" if real else "a limit on the size of files"
    print(
        f"{kind}: {arguments.rounds} saves, {failed} of them failed; "
        "older checkpoints byte-identical, every run recovered"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
