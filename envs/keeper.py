"""Launching and closing environments without waiting for them."""

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

from mlagents_envs.base_env import BaseEnv

from .pipelined import PipelinedEnv, pipelined

logger = logging.getLogger(__name__)


class Keeper:
    """Launches, closes and launches again one environment, in a thread of its own.

    Both can take a minute, and whoever drives the other environments must not wait for it.

    Args:
        index: The environment's index, for messages.
        make_env: Launches it; blocks until it stands.
        report: Called from the keeper's thread with every launched environment, or with what kept it
            from starting.
    """

    def __init__(
        self,
        index: int,
        make_env: Callable[[int], BaseEnv],
        report: Callable[[PipelinedEnv | BaseException], None],
    ) -> None:
        self.index = index
        self.launching = False
        self._make_env = make_env
        self._report = report
        self._env: PipelinedEnv | None = None
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=f"keeper of environment {index}", daemon=True)
        self._thread.start()

    def launch(self) -> None:
        """Close what there is and launch anew; the outcome is reported. Returns at once."""
        self.launching = True
        self._jobs.put(self._launch)

    def close(self, timeout: float) -> None:
        """Close what there is, giving it `timeout` seconds, and end the thread. Returns at once."""
        self._jobs.put(lambda: self._end(timeout))
        self._jobs.put(None)

    def join(self, timeout: float) -> bool:
        """Wait for the end after `close`, at most `timeout` seconds; whether it came."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def _launch(self) -> None:
        self._end(None)
        outcome: PipelinedEnv | BaseException
        try:
            outcome = self._env = pipelined(self._make_env(self.index))
        except BaseException as error:  # SystemExit too: a manager waits for the report
            outcome = error
        self.launching = False
        self._report(outcome)

    def _end(self, timeout: float | None) -> None:
        env, self._env = self._env, None
        if env is None:
            return
        try:
            env.close(timeout)
        except Exception as error:
            logger.warning("environment %d could not be closed in good order: %s", self.index, error)
