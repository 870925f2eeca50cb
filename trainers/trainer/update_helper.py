"""A process that takes a part of each update, as long as it is there; without it all is done here."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from .learner_process import Job, LearnerProcess, ProcessLostError

logger = logging.getLogger(__name__)

START_SECONDS = 5.0
"""Of updates, after which the process starts."""
PATIENCE, SHORTEST_PATIENCE = 20.0, 30.0
"""The process is given up after so many times the time that this one took, or so many seconds."""


class UpdateHelper:
    """See `algorithms.base.Helper`.

    The process starts once updates have taken a while, and gets no job until it is there: nobody waits for
    its imports, which take as much of a processor as it then saves in a dozen seconds of updates, and more
    memory than short runs should have. Should it end or fail in any way, the run goes on without it.
    """

    def __init__(self, make: Callable[[], LearnerProcess], spent: Callable[[], float]) -> None:
        """Prepare.

        Args:
            make: starts the process; may raise TrainerError.
            spent: seconds that updates have taken so far.
        """
        self._make, self._spent = make, spent
        self._process: LearnerProcess | None = None
        self._lost = False
        self._began = 0.0
        """When the last job did."""

    def begin(self, job: Job) -> bool:
        """Hand over a job, whose tensors may change afterwards; whether the process takes it."""
        if self._lost:
            return False
        try:
            if self._process is None:
                if self._spent() >= START_SECONDS:
                    self._process = self._make()
                return False
            if not self._process.is_ready():
                return False
            self._process.begin(job)
        except Exception as error:  # whatever it is: here the job can be done all the same
            self._lose(error)
            return False
        self._began = time.monotonic()
        return True

    def result(self) -> Any:
        """Wait for what came out of it; None if the process is lost.

        It has as much to do as this one, and many times that to do it in.
        """
        assert self._process is not None, "no job has begun"
        patience = max(SHORTEST_PATIENCE, PATIENCE * (time.monotonic() - self._began))
        try:
            return self._process.result(patience).outcome
        except Exception as error:
            self._lose(error)
            return None

    def abandon(self) -> None:
        """Give up the job, and the process with it."""
        self.close()
        self._lost = True

    def _lose(self, error: Exception) -> None:
        how = error.how if isinstance(error, ProcessLostError) else f"has failed: {error}"
        logger.warning(
            "The process that is to take a half of the updates %s. The run goes on without it: the numbers "
            "are the same, but updates take longer.",
            how,
        )
        self.abandon()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close()
            self._process = None
