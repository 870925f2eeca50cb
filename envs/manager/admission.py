"""Environments that join and leave a run by themselves: their indices, and what is logged of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from itertools import count
from logging import INFO, WARNING, getLogger

from mlagents_envs.exception import UnityCommunicatorStoppedException, UnityException

from ..base import EnvironmentStep
from .async_env import EnvSource, PendingEnv
from .specs import SpecConflictError
from .worker import EnvLauncher, Worker

logger = getLogger(__name__)


MOST_MESSAGES = 100
PERIOD_SECONDS = 60.0


class LimitedMessages:
    """Logs at most 100 messages a minute about engines, which may come and go many times a second.

    A message with a subject is logged once a minute for that subject.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = -PERIOD_SECONDS
        self._logged = 0
        self._left_out = 0
        self._subjects: set[object] = set()

    def log(self, level: int, message: str, *arguments: object, subject: object = None) -> None:
        """Log a message, or count it."""
        now = self._clock()
        if now - self._since >= PERIOD_SECONDS:
            if self._left_out:
                logger.warning("%d messages about engines that came and went were left out.", self._left_out)
            self._since, self._logged, self._left_out = now, 0, 0
            self._subjects.clear()
        if self._logged == MOST_MESSAGES or subject in self._subjects:
            self._left_out += 1
            return
        self._logged += 1
        if subject is not None:
            self._subjects.add(subject)
        logger.log(level, message, *arguments)
        if self._logged == MOST_MESSAGES:
            logger.warning("Further engines that come and go within this minute are only counted.")


class Admission:
    """Admits environments to a manager, and keeps track of those that have left.

    Args:
        source: Where they come from.
        needed: How many there must be for the run to begin.
    """

    def __init__(self, source: EnvSource, needed: int) -> None:
        self.source = source
        self.needed = needed
        self._removed: dict[int, EnvironmentStep] = {}
        self._closing: list[EnvLauncher] = []
        self._started = False
        self._empty = False
        self._messages = LimitedMessages()

    @property
    def has_removed(self) -> bool:
        """Whether environments have left that `take_removed` has not returned yet."""
        return bool(self._removed)

    def open(self, announce: Callable[[], None]) -> None:
        """Admit environments from now on; see `EnvSource.open`."""
        self.source.open(announce)
        logger.info("Waiting for %s at %s.", _engines(self.needed), self.source.where)

    def start(self) -> None:
        """There are enough environments."""
        self._started = True

    def pending(self, taken: Collection[int]) -> Iterator[tuple[int, PendingEnv]]:
        """The environments that want to take part, each with the lowest free index.

        Args:
            taken: The indices that are in use; it may change in between. Those of removed environments that
                `take_removed` has not returned yet are not free either.
        """
        while (pending := self.source.next()) is not None:
            yield next(k for k in count() if k not in taken and k not in self._removed), pending

    def connected(self, worker: Worker, present: int) -> None:
        """An environment has been launched; `present` are there now, itself included."""
        if not self._started:
            state = f"{present} of {self.needed}"
            self._messages.log(INFO, "%s has connected: %s.", _capitalized(worker.name), state)

    def joined(self, worker: Worker, present: int) -> None:
        """An environment's first answer has been checked; `present` take part now, itself included."""
        worker.has_joined = True
        if (take := getattr(worker.env, "take_introduction", None)) is not None:
            for line in take():
                self._messages.log(INFO, "%s", line)
        state = f"{_engines(present)} now"
        if self._empty:
            self._empty = False
            state = "the run goes on"
        self._messages.log(INFO, "%s has joined: %s.", _capitalized(worker.name), state)

    def left(self, worker: Worker, error: BaseException, present: int) -> None:
        """An environment has left, or is turned away, for this reason; `present` still take part."""
        where = worker.name if worker.pending_env is None else worker.pending_env.where
        reason = _reason(error, worker.name, where)
        if worker.pending_env is not None:
            worker.pending_env.close_with_reason(reason)
            if not worker.has_joined:
                worker.pending_env.on_rejected()
        worker.launcher.close(0.0)
        self._closing = [launcher for launcher in self._closing if not launcher.join(0.0)]
        self._closing.append(worker.launcher)
        stopped = isinstance(error, UnityCommunicatorStoppedException)
        was_there = worker.has_joined or (worker.was_launched and stopped)
        if was_there and not isinstance(error, SpecConflictError):
            level = INFO if stopped else WARNING
            self._messages.log(level, "%s has left: %s", _capitalized(worker.name), reason)
        else:
            # Without the port: a machine that keeps trying is logged once.
            host = worker.pending_env.where.rpartition(":")[0] if worker.pending_env is not None else ""
            self._messages.log(WARNING, "Turned away %s: %s", worker.name, reason, subject=(host, reason))
        if self._started and worker.was_launched:
            # Its unfinished episodes are void at once: no other environment may ever take its place.
            self._removed[worker.index] = EnvironmentStep(worker.index, {}, {}, fresh=True, left=True)
        if self._started and not present and not self._empty:
            self._empty = True
            self._messages.log(
                WARNING, "No engine is left: the run waits for the next one at %s.", self.source.where
            )

    def take_removed(self) -> list[EnvironmentStep]:
        """A step with `left` for each environment that has left since the last call."""
        removed = list(self._removed.values())
        self._removed.clear()
        return removed

    def close(self) -> None:
        """Admit no more environments."""
        self.source.close()

    def await_closing(self, deadline: float) -> None:
        """Wait until those that have left are closed, at most until `deadline` of the monotonic clock."""
        for launcher in self._closing:
            launcher.join(max(0.0, deadline - time.monotonic()))


def _engines(number: int) -> str:
    return "1 engine" if number == 1 else f"{number} engines"


def _capitalized(name: str) -> str:
    return name[:1].upper() + name[1:]


def _reason(error: BaseException, name: str, where: str) -> str:
    """The first line of the error, without the environment's name and place, which the message has."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if not isinstance(error, (UnityException, ValueError)):  # a fault that nobody has put in words
        lines[0] = f"{type(error).__name__}: {lines[0]}"
    text = lines[0].removeprefix("Communicator has exited. ").strip("()")
    for known in (name, where):
        words = ((f"The connection to {known}", "its connection"), (f"{known}: ", ""), (known, "it"))
        for long, short in words:
            text = text.replace(long, short)
    return text
