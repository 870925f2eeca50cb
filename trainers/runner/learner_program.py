"""The program of a `LearnerProcess`: makes the updates that it is asked for, until the connection ends."""

from __future__ import annotations

import logging
import pickle
import shutil
import sys
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any, cast

import torch

from ..algorithms.fast.threads import ACTING_THREADS
from ..stats.reporter import StatsReporter
from ..trainer.factory import make_algorithm, make_trainer
from ..trainer.learner_process import FinishedUpdate, LearnerPlan, UpdateJob, heartbeat_file
from ..trainer.on_policy import OnPolicyTrainer
from ..trainer.standalone import SummaryEvents
from ..utils.channel import Channel
from ..utils.errors import TrainerError
from ..utils.heartbeat import Heartbeat
from ..utils.logging import PACKAGE
from .preflight import set_malloc_thresholds


class MessageLog(logging.Handler):
    """Keeps messages for the run, which logs them."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[tuple[str, int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one message."""
        self._kept.append((record.name, record.levelno, record.getMessage()))

    def take(self) -> list[tuple[str, int, str]]:
        """The messages since the last call: logger, level, text."""
        taken, self._kept = self._kept, []
        return taken


def make_learner(plan: LearnerPlan) -> OnPolicyTrainer[Any]:
    """The trainer of a plan, as the run has it, but without a source of steps."""
    sys.path[:] = plan.python_path
    algorithm = make_algorithm(
        plan.spec, plan.settings, plan.device, plan.seed, plan.non_finite, plan.precision
    )
    reporter = StatsReporter(plan.name)
    trainer = make_trainer(
        plan.spec,
        plan.settings,
        algorithm,
        reporter,
        SummaryEvents(reporter),
        name=plan.name,
        non_finite=plan.non_finite,
        seed=plan.seed,
        device=plan.device,
        update_threads=plan.threads,
    )
    return cast("OnPolicyTrainer[Any]", trainer)


def serve(channel: Channel, log: MessageLog) -> None:
    """Make updates until the other end closes the channel."""
    trainer = None
    while True:
        plan: LearnerPlan
        job: UpdateJob
        plan, job = channel.receive()
        try:
            if trainer is None:
                trainer = make_learner(plan)
                log.take()  # the run has said it too
            metrics, state = trainer.update(job)
            timers = trainer.timers.root.children
            finished = FinishedUpdate(metrics, state, timers, log.take())
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            finished = FinishedUpdate(messages=log.take(), error=_as_sent(error), traceback=text)
        channel.send(finished)


def _as_sent(error: Exception) -> Exception:
    """The error; in words, if another process could not have it."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 (its own)
    except Exception:
        return TrainerError(f"{type(error).__name__}: {error}")
    return error


def main(arguments: Sequence[str]) -> None:
    """Wait for the run at an address. At the end `folder` is removed, should the run be dead."""
    address, folder = arguments
    Heartbeat(heartbeat_file(Path(folder)).touch).start()
    set_malloc_thresholds()
    torch.set_num_threads(ACTING_THREADS)
    log = MessageLog()
    logger = logging.getLogger(PACKAGE)
    logger.addHandler(log)
    logger.setLevel(logging.INFO)
    try:
        with Listener(address) as listener, listener.accept() as connection:
            serve(Channel(connection, Path(folder)), log)
    except (EOFError, OSError):  # the run has ended
        return
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
