"""Starts the ranks of a run, and is the program of those that are not the first.

`--learners N` starts the others from rank 0; `torchrun` starts all of them. In both cases rank 0 reads the
configuration, claims the run's folder and sends both to the others, which then run as it does.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mlagents_envs.exception import UnityEnvironmentException

from ...envs.engines.own_program import own_program
from ...envs.engines.process import EngineProcess
from ...envs.engines.reaper import REAPER, resume_family
from ...envs.utils.regular_files import open_own
from ..checkpoints.status import TrainingStatus
from ..settings.options import RunOptions
from ..utils import distributed
from ..utils.distributed import RankLostError
from ..utils.errors import TrainerError
from ..utils.heartbeat import FolderSigns, Presence, StoreSigns, Watch, await_end
from ..utils.logging import configure_logging
from ..utils.requirements import limit_openmp_spinning
from ..utils.torchrun import launched_rank
from .engine_errors import StoppedByEngineError, errors_recorded
from .preflight import set_malloc_thresholds
from .signals import StopSignals

logger = logging.getLogger(__name__)

CRASH = "Fatal Python error"
"""How Python begins to list what a crashed process was doing; the reason, if any was said, is before that."""
ENDING_SECONDS = 3.0
"""Seconds within which a process whose connections broke has ended."""
CLOSING_SECONDS = 60.0
"""Seconds within which a rank has closed its environments at the end of the run."""
READY_POLL_SECONDS = 0.05
_ADVICE = "What was learned before is saved: continue with --resume, and any number of --learners."


class Assignment(NamedTuple):
    """What rank 0 sends to the other ranks."""

    options: RunOptions
    folder: Path
    restart_engines_at_checkpoints: bool


@dataclass(frozen=True)
class RankProcess:
    """A further rank, started by rank 0.

    Like an engine it lives in a session of its own, so that Ctrl-C in the terminal reaches rank 0 alone, and
    the reaper ends it should this process be killed.
    """

    rank: int
    process: EngineProcess
    log: Path
    """The file of what the rank prints."""
    watch: Watch

    def end(self, timeout: float) -> None:
        """Wait for the rank's end at most this many seconds, if it lives; then kill it with its children."""
        if not await_end(self.process, self.watch, timeout):
            self.kill()
        if self.log.exists() and not self.log.stat().st_size:
            self.log.unlink()

    def kill(self) -> None:
        """Kill the rank at once; its guard ends its engines."""
        resume_family(self.process.pid)
        self.process.kill()

    def exit_description(self) -> str:
        """How the rank ended, with the last line of its log, but for the stacks of a crash."""
        code = self.process.returncode or 0
        how = f"it ended with exit status {code}"
        if code < 0:
            how = f"it was ended by signal {-code} ({signal.Signals(-code).name})"
        lines = self.log.read_text(errors="replace").strip().splitlines() if self.log.exists() else []
        crash = next((i for i, line in enumerate(lines) if line.startswith(CRASH)), len(lines))
        last = lines[:crash][-1:] or lines[crash : crash + 1]
        return f"{how}; the last line of {self.log}: {last[0].strip()}" if last else f"{how} silently"


class RankProcesses:
    """The ranks that rank 0 has started."""

    def __init__(self, world_size: int, device: str, logs: Path, timeout: float) -> None:
        """Start the ranks.

        Args:
            world_size: how many ranks there are, with this one.
            device: "cpu" or "cuda".
            logs: the folder of what the ranks print.
            timeout: seconds without a sign of life after which a rank counts as lost.

        Raises:
            TrainerError: the system refuses.
        """
        self.world_size, self._device, self._timeout = world_size, device, timeout
        self._folder = REAPER.make_folder("lanista-ranks-")
        self._presence = Presence(FolderSigns(self._folder, 0), 0, world_size, timeout)
        self.have_begun = False
        """Whether all have connected: what is learned from now on can be saved."""
        self._warned = False
        """Whether the user knows that a rank, which is alive, has been awaited for long."""
        self.rendezvous = str(self._folder / "store")
        self._processes: list[RankProcess] = []
        try:
            for rank in range(1, world_size):
                log = logs / f"learner-{rank}.log"
                open_own(log, "wb").close()
                arguments = [str(rank), str(world_size), device, self.rendezvous, str(log)]
                command = own_program("lanista.trainers.runner.ranks", *arguments)
                watch = self._presence.watches[rank]
                self._processes.append(RankProcess(rank, EngineProcess(command), log, watch))
        except (UnityEnvironmentException, OSError) as error:
            self.end(0.0)
            raise TrainerError(
                f"The learner {rank} of {world_size} (torch_settings.learners) cannot be started: {error}"
            ) from error

    def await_ready(self) -> None:
        """Return when all ranks are about to connect; `check` then tells of lost ones until they have.

        Raises:
            RankLostError: one has ended before, or shows no sign of life.
        """
        waiting, began = list(self._processes), time.monotonic()
        while waiting:
            waiting = [each for each in waiting if not _ready_file(self.rendezvous, each.rank).exists()]
            for process in waiting:
                process.process.wait(READY_POLL_SECONDS)
            self.check(time.monotonic() - began)

    def check(self, waited: float) -> None:
        """Give up a rank that shows no sign of life, or that does not come to the end of the run.

        That includes a rank that ended before the run began, which torch would await for half an hour. A rank
        that is alive and does not come is named: it may be restarting its engines, or it hangs.

        Args:
            waited: seconds for which the others have been awaited.

        Raises:
            RankLostError: naming the rank, which is killed: it must not go on later.
        """
        for process in self._processes:
            if not self.have_begun and process.process.wait(0.0):
                raise RankLostError(
                    f"{self._name(process)} has ended before the run began: {process.exit_description()}. "
                    "Start it again."
                )
            reason = process.watch.lost_reason(self._name(process))
            if reason is not None:
                process.kill()
                advice = _ADVICE if self.have_begun else "Start the run again."
                raise RankLostError(f"{self._name(process)} {reason}. {advice}")
        if waited < self._timeout:
            self._warned = False
        elif not self._warned and all(process.watch.is_alive for process in self._processes):
            self._warned = True
            logger.warning(
                "%s has been awaited for %.0f s. It is alive: its environments may be restarting, or may "
                "hang. Ctrl-C saves and ends the run.",
                " or ".join(map(self._name, self._processes)),
                waited,
            )

    def kill(self) -> None:
        """Kill all ranks at once."""
        for process in self._processes:
            process.kill()

    def describe(self, error: RuntimeError) -> str:
        """The sentence about the rank that was lost, given the error of a collective call."""
        deadline = time.monotonic() + ENDING_SECONDS
        while time.monotonic() < deadline:
            for process in self._processes:
                if process.process.wait(0.05):
                    return f"{self._name(process)} has ended: {process.exit_description()}. {_ADVICE}"
        names = " or ".join(map(self._name, self._processes))
        return f"{names} does not answer ({_first_line(error)}). {_ADVICE}"

    def _name(self, process: RankProcess) -> str:
        where = self._device if self._device == "cpu" else f"{self._device}:{process.rank}"
        return f"The learner {process.rank} of {self.world_size} (process {process.process.pid}, {where})"

    def end(self, timeout: float) -> None:
        """Wait for all ranks, at most this many seconds together, and kill those that are left."""
        deadline = time.monotonic() + timeout
        for process in self._processes:
            process.end(max(0.0, deadline - time.monotonic()))
        self._presence.close()
        shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def first_rank(options: RunOptions, folder: Path, *, restart_engines_at_checkpoints: bool) -> Iterator[None]:
    """Make this process rank 0 in the context, beside the other ranks; with one learner do nothing.

    Raises:
        TrainerError: there are too few GPUs, or a rank cannot be started.
    """
    world_size = options.torch_settings.learners
    if world_size == 1 or options.checkpoint_settings.inference:
        yield
        return
    device = device_type(options)
    assignment = Assignment(options, folder, restart_engines_at_checkpoints)
    timeout = options.env_settings.timeout_wait
    if launched_rank() is not None:
        with joined_ranks(0, world_size, device, timeout):
            distributed.broadcast(assignment)
            yield
        return
    _require_gpus(world_size, device)
    distributed.require_backend(device)
    ranks = RankProcesses(world_size, device, folder / "run_logs", timeout)
    patience = 0.0
    try:
        ranks.await_ready()
        with distributed.process_group(
            0,
            world_size,
            device,
            rendezvous=ranks.rendezvous,
            describe=ranks.describe,
            check=ranks.check,
            release=ranks.kill,
        ):
            ranks.have_begun = True
            distributed.broadcast(assignment)
            logger.info("%d learners train the policies together (torch_settings.learners).", world_size)
            yield
        patience = CLOSING_SECONDS
    except Exception:
        patience = ENDING_SECONDS  # they end by themselves when their connections break
        raise
    finally:
        ranks.end(patience)


def further_rank(rank: int, world_size: int, device: str | None, rendezvous: str | None = None) -> None:
    """Run as one of the ranks that are not the first: without a console, and without files but its own.

    Args:
        rank: this process's rank.
        world_size: how many ranks there are.
        device: "cpu" or "cuda"; None: as this machine has it.
        rendezvous: see `distributed.process_group`.

    Raises:
        TrainerError: what ends a run; `RankLostError` where rank 0 or another one has ended.
    """
    configure_logging().setLevel(logging.WARNING)
    limit_openmp_spinning()
    set_malloc_thresholds()
    from ..stats.display import SilentDisplay
    from .training import train

    if rendezvous is not None:
        _ready_file(rendezvous, rank).touch()
    with (
        StopSignals() as signals,
        joined_ranks(rank, world_size, device or _default_device(), rendezvous=rendezvous),
    ):
        nothing: Assignment | None = None
        assignment = distributed.broadcast(nothing)
        assert assignment is not None
        options, folder, restart_engines = assignment
        status = TrainingStatus(folder / "run_logs" / "training_status.json")
        if options.checkpoint_settings.resume:
            status.load()
        display = SilentDisplay()
        with errors_recorded(options, folder, rank) as errors:
            train(
                options,
                folder,
                status,
                display,
                signals,
                restart_engines_at_checkpoints=restart_engines,
                errors=errors,
            )


@contextmanager
def joined_ranks(
    rank: int, world_size: int, device: str, timeout: float | None = None, *, rendezvous: str | None = None
) -> Iterator[None]:
    """Make this process, in the context, a rank that others cannot end: one of `torchrun`, or not the first.

    Args:
        rank, world_size, device, rendezvous: see `distributed.process_group`.
        timeout: see `Presence`.

    Raises:
        RankLostError: another rank has ended, or was given up.
    """
    presence: Presence | None = None
    if rendezvous is not None:
        presence = Presence(FolderSigns(Path(rendezvous).parent, rank), rank, world_size, timeout)

    warned = False

    def check(waited: float) -> None:
        nonlocal warned
        if presence is None and timeout is not None and waited >= timeout and not warned:
            warned = True
            logger.warning(
                "The other learners have not come to %s:%s (MASTER_ADDR, MASTER_PORT) for %.0f s, and are "
                "awaited. Ctrl-C ends the run.",
                os.environ["MASTER_ADDR"],
                os.environ["MASTER_PORT"],
                waited,
            )
        for other, watch in presence.watches.items() if presence is not None else ():
            name = f"The learner {other} of {world_size}"
            reason = watch.lost_reason(name)
            if reason is not None:
                raise RankLostError(f"{name} {reason}. {_ADVICE}")

    try:
        with distributed.process_group(
            rank, world_size, device, rendezvous=rendezvous, describe=_lost_of_torchrun, check=check
        ):
            if presence is None:
                signs = StoreSigns(distributed.shared_store(), rank, world_size)
                presence = Presence(signs, rank, world_size, timeout)
            yield
    finally:
        if presence is not None:
            presence.close()


def _ready_file(rendezvous: str, rank: int) -> Path:
    """The file that a rank makes when it is about to connect."""
    return Path(f"{rendezvous}-ready-{rank}")


def with_launched_ranks(options: RunOptions) -> RunOptions:
    """The options with as many learners as `torchrun` has started.

    Raises:
        TrainerError: another number is asked for, or a run of one process; or the variables of `torchrun` are
            incomplete or wrong.
    """
    launched = launched_rank()
    if launched is None:
        return options
    learners, started = options.torch_settings.learners, launched.world_size
    if options.checkpoint_settings.inference:
        raise TrainerError(
            f"--inference takes one process, and torchrun has started {started} (WORLD_SIZE): start "
            "lanista-learn by itself."
        )
    if learners not in (1, started):
        raise TrainerError(
            f"torch_settings.learners (--learners): found {learners}, and torchrun has started {started} "
            "processes (WORLD_SIZE): give the number to torchrun alone."
        )
    torch_settings = options.torch_settings.model_copy(update={"learners": started})
    return options.model_copy(update={"torch_settings": torch_settings})


def device_type(options: RunOptions) -> str:
    """The type of the device of all ranks, `cpu` or `cuda`."""
    return options.torch_settings.device or _default_device()


def _default_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _require_gpus(world_size: int, device: str) -> None:
    import torch

    if device == "cuda" and torch.cuda.device_count() < world_size:
        raise TrainerError(
            f"torch_settings.learners (--learners): found {world_size}, and this machine has "
            f"{torch.cuda.device_count()} GPUs, of which each learner takes one. Give at most so many, or "
            "--torch-device cpu."
        )


def _lost_of_torchrun(error: RuntimeError) -> str:
    return (
        f"Another learner (torchrun's RANK) has ended, or does not answer ({_first_line(error)}). {_ADVICE}"
    )


def _first_line(error: RuntimeError) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0]


def main(arguments: Sequence[str]) -> int:
    """Run a rank that rank 0 has started; return its exit status."""
    rank, world_size, device, rendezvous, log = arguments
    with open_own(Path(log), "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        further_rank(int(rank), int(world_size), device, rendezvous)
    except (RankLostError, StoppedByEngineError):
        return 1  # rank 0 reports it
    except KeyboardInterrupt:
        return 1
    return 0


if __name__ == "__main__":
    distributed.exit_process(main(sys.argv[1:]))
