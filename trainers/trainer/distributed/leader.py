"""The learners of a run as the first of them leads them, which collects and acts.

The further learners of a run, and what the first one has to do with them.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from mlagents_envs.base_env import BehaviorSpec

from ....envs.base import processors
from ....envs.validation import NonFinite
from ...algorithms.common.threads import MOST_UPDATE_THREADS, UpdateThreads
from ...checkpoints.metadata import describe_spec
from ...networks.modules.precision import Precision
from ...settings.models.behavior import TrainerSettings
from ...settings.options import RunOptions
from ...utils.data_parallel import LearnerLostError, Sharing
from ...utils.errors import TrainerError
from ..trainer import Trainer
from .messages import Message, send
from .rendezvous import Progress, join, leave
from .worker import LearnerProcess

logger = logging.getLogger(__name__)

PATIENCE = 120.0
"""Seconds in which an exchange must end: within an update no learner is far behind another."""
DYING = 3.0
"""Seconds for a process, whose end was noticed by its connections, to be gone."""


LOOK = 0.05
_ADVICE = "What was learnt before that update is kept: go on with --resume, and any number of --learners."


class LearnerTeam:
    """Starts the further learners, and ends them; commands go to all of them.

    Learners do nothing but what they are told: to make behaviours' trainers, and to repeat updates.
    """

    def __init__(self, size: int, device: str, logs: Path, threads: int, patience: float = PATIENCE) -> None:
        """Start the processes, and wait until all have joined.

        Args:
            size: the number of learners, this one among them.
            device: "cpu" or "cuda"; on GPUs learner k has the k-th.
            logs: the folder of the files `learner-<k>.log`, of what they write.
            threads: processor threads of each for an update.
            patience: seconds for every exchange.

        Raises:
            TrainerError: one cannot be started, or this torch cannot connect them.
        """
        self.size, self.device, self._patience = size, device, patience
        self.lock = threading.RLock()
        """Held from a command to the end of what it asks for: behaviours may learn in threads."""
        self._folder = Path(tempfile.mkdtemp(prefix="lanista-learners-"))  # no other user can look into it
        self._progress = Progress(self._folder, 0, size)
        self._processes: list[LearnerProcess] = []
        try:
            for rank in range(1, size):
                self._start(rank, logs / f"learner-{rank}.log")
            self.tell(
                {
                    "join": {
                        "folder": str(self._folder),
                        "size": size,
                        "device": device,
                        "threads": threads,
                        "patience": patience,
                    }
                }
            )
            for process in self._processes:
                if not process.wait_until_ready():
                    raise self._lost("could not begin")
            try:
                join(self._folder, 0, size, device, patience)
            except RuntimeError as error:
                raise self._lost("did not join", error) from error
        except BaseException:
            self.close()
            raise
        self.sharing = Sharing(0, size, entered=self._progress.entered, failed=self._failed)
        logger.info("%d learners update the policies together (torch_settings.learners).", size)

    def _start(self, rank: int, log: Path) -> None:
        try:
            self._processes.append(LearnerProcess(rank, log))
        except OSError as error:
            raise TrainerError(
                f"The learner {rank} of {self.size} (torch_settings.learners) cannot be started: {error}."
            ) from error

    def tell(self, command: dict[str, Any]) -> None:
        """Send a command to all; they carry out one after another.

        Raises:
            LearnerLostError: one has gone.
        """
        for process in self._processes:
            try:
                process.tell(command | {"rank": process.rank})
            except OSError as error:
                raise self._lost("has gone", error) from error

    def lead(self, command: dict[str, Any], message: Message, work: Callable[[], None]) -> None:
        """Let all learners do the same: send them a command and what it needs, and do this one's part.

        Raises:
            LearnerLostError: one has gone.
        """
        with self.lock:
            self.tell(command)
            send(self.sharing, message)
            work()

    def _failed(self, error: RuntimeError) -> Exception:
        return self._lost("did not finish an update", error)

    def _lost(self, what: str, error: Exception | None = None) -> LearnerLostError:
        """The one sentence that ends the run: which learner, and why."""
        gone = self._first_gone()
        if gone is not None:
            return LearnerLostError(f"{self._named(gone)} {what}: {gone.fate()}. {_ADVICE}")
        behind = set(self._progress.behind())
        late = [process for process in self._processes if process.rank in behind] or self._processes
        cause = str(error).strip().splitlines()[0] if error is not None and str(error).strip() else "no word"
        return LearnerLostError(
            f"{' and '.join(map(self._named, late))} {what} within {self._patience:g} s: it is alive and "
            f"does not answer ({cause}). {_ADVICE}"
        )

    def _first_gone(self) -> LearnerProcess | None:
        """Who has ended, or does within a moment."""
        until = time.monotonic() + DYING
        while time.monotonic() < until:
            for process in self._processes:
                if process.ended(LOOK):
                    return process
        return None

    def _named(self, process: LearnerProcess) -> str:
        where = self.device if self.device == "cpu" else f"{self.device}:{process.rank}"
        return f"The learner {process.rank} of {self.size} (process {process.pid}, {where})"

    def close(self) -> None:
        """End the learners at once: between updates they hold nothing that is not here too."""
        for process in self._processes:
            process.end()
        leave()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> LearnerTeam:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def shared_threads(options: RunOptions) -> UpdateThreads:
    """Processor threads of each of several learners; always as many, so that sums are rounded alike."""
    most = max(1, min(processors() // options.torch_settings.learners, MOST_UPDATE_THREADS))
    return UpdateThreads(
        options.torch_settings.num_threads or (1 if options.repeatable else most), fixed=True
    )


def learner_team(options: RunOptions, device: torch.device, logs: Path) -> LearnerTeam | None:
    """The further learners that the run is to have, started; None where it learns alone or not at all.

    Raises:
        TrainerError: there are too few GPUs, or one of the learners cannot begin.
    """
    size = options.torch_settings.learners
    if size == 1 or options.checkpoint_settings.inference:
        return None
    if device.type == "cuda" and torch.cuda.device_count() < size:
        raise TrainerError(
            f"torch_settings.learners (--learners): found {size}, and this machine has "
            f"{torch.cuda.device_count()} GPUs, of which each learner takes one. Give at most so many, or "
            "--torch-device cpu."
        )
    return LearnerTeam(size, device.type, logs, shared_threads(options).most)


def learn_together(
    team: LearnerTeam,
    trainer: Trainer,
    name: str,
    spec: BehaviorSpec,
    seed: int,
    non_finite: NonFinite,
    precision: Precision,
) -> None:
    """Let all learners have such a trainer; this one, which has the run's weights, leads them.

    Raises:
        LearnerLostError: a learner has gone.
    """
    with team.lock:
        team.tell({"behavior": described(trainer.settings, name, spec, seed, non_finite, precision)})
    trainer.share(team.sharing)
    trainer.lead = partial(team.lead, {"update": name})


def described(
    settings: TrainerSettings,
    name: str,
    spec: BehaviorSpec,
    seed: int,
    non_finite: NonFinite,
    precision: Precision,
) -> dict[str, Any]:
    """Plain values, by which every learner makes a trainer of such a behaviour (`made_trainer`)."""
    return {
        "name": name,
        "spec": describe_spec(spec),
        "settings": settings.as_dict(),
        "seed": seed,
        "non_finite": non_finite.value,
        "precision": precision.value,
    }
