"""Who comes and goes through a manager's door: what is said of them, and what they leave behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from itertools import count
from logging import INFO, WARNING, getLogger

from mlagents_envs.exception import UnityCommunicatorStoppedException

from ..base import EnvironmentStep
from .async_env import Door, Newcomer
from .specs import SpecConflictError
from .worker import Keeper, Worker

logger = getLogger(__name__)


class Attendance:
    """The comings and goings of a manager's environments.

    Args:
        door: Where they come in.
        needed: How many there must be for the run to begin.
    """

    def __init__(self, door: Door, needed: int) -> None:
        self.door = door
        self.needed = needed
        self._gone: dict[int, EnvironmentStep] = {}
        self._leaving: list[Keeper] = []
        self._begun = False
        self._deserted = False

    @property
    def untold(self) -> bool:
        """Whether somebody has gone of whom `take_gone` has not told."""
        return bool(self._gone)

    def open(self, announce: Callable[[], None]) -> None:
        """Let environments in from now on; see `Door.open`."""
        self.door.open(announce)
        logger.info("Waiting for %s at %s.", _engines(self.needed), self.door.where)

    def begin(self) -> None:
        """There are enough."""
        self._begun = True

    def newcomers(self, taken: Collection[int]) -> Iterator[tuple[int, Newcomer]]:
        """Who wants to take part, each with the lowest index that is free.

        Args:
            taken: The indices that are not; it may change in between. Those of which is still to be told that
                their environments have gone are not free either.
        """
        while (newcomer := self.door.next()) is not None:
            yield next(k for k in count() if k not in taken and k not in self._gone), newcomer

    def joined(self, worker: Worker, present: int) -> None:
        """An environment stands; `present` do now, itself included."""
        state = f"{present} of {self.needed}" if not self._begun else f"{_engines(present)} now"
        if self._deserted:
            self._deserted = False
            state = "the run goes on"
        logger.info("%s has joined: %s.", _capitalised(worker.name), state)

    def left(self, worker: Worker, error: BaseException, present: int) -> None:
        """An environment has gone, or is sent away, for this reason; `present` still stand."""
        reason = _reason(error, worker.name)
        if worker.guest is not None:
            worker.guest.part(reason)
        worker.keeper.close(0.0)
        self._leaving = [keeper for keeper in self._leaving if not keeper.join(0.0)]
        self._leaving.append(worker.keeper)
        if worker.stood and not isinstance(error, SpecConflictError):
            level = INFO if isinstance(error, UnityCommunicatorStoppedException) else WARNING
            logger.log(level, "%s has left: %s", _capitalised(worker.name), reason)
        else:
            logger.warning("Turned away %s: %s", worker.name, reason)
        if self._begun and worker.stood:
            # Its unfinished episodes are void at once: nobody may ever come to take its place.
            self._gone[worker.index] = EnvironmentStep(worker.index, {}, {}, fresh=True, left=True)
        if self._begun and not present and not self._deserted:
            self._deserted = True
            logger.warning("No engine is left: the run waits for the next one at %s.", self.door.where)

    def take_gone(self) -> list[EnvironmentStep]:
        """Of each environment that has gone since the last call: that it has."""
        gone = list(self._gone.values())
        self._gone.clear()
        return gone

    def close(self) -> None:
        """Let nobody in any more."""
        self.door.close()

    def await_leaving(self, deadline: float) -> None:
        """Wait until those who were sent away are closed, at most until `deadline` of the monotonic clock."""
        for keeper in self._leaving:
            keeper.join(max(0.0, deadline - time.monotonic()))


def _engines(number: int) -> str:
    return "1 engine" if number == 1 else f"{number} engines"


def _capitalised(name: str) -> str:
    return name[:1].upper() + name[1:]


def _reason(error: BaseException, name: str) -> str:
    """The first line of what has happened; the message around it has the environment's name already."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    text = lines[0].removeprefix("Communicator has exited. ").strip("()")
    for long, short in ((f"The connection to {name}", "its connection"), (f"{name}: ", ""), (name, "it")):
        text = text.replace(long, short)
    return text
