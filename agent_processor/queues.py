"""What the agent processor hands to trainers: trajectories by queues, figures by a `StatsSink`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Condition
from typing import Any, Generic, Protocol, TypeVar

from numpy.typing import NDArray

from ..envs.base import StatsAggregationMethod

T = TypeVar("T")

ASK_SECONDS = 0.05
"""Between two questions of a `put` that waits, whether it still has to."""


class StatsSink(Protocol):
    """Takes figures until the next summary puts them together."""

    def add_stat(self, key: str, value: float, aggregation: StatsAggregationMethod) -> None:
        """One more value for `key`."""

    def add_stats(self, key: str, values: NDArray[Any], aggregation: StatsAggregationMethod) -> None:
        """[n] more values for `key`."""

    def set_stat(self, key: str, value: float) -> None:
        """The value of `key`, in place of any that it had."""


class AgentManagerQueue(Generic[T]):
    """First in, first out, between threads. With a bound, `put` waits while the queue is full.

    Not once `ends()` says that the run is to end: who takes items out may be busy for long. What is put then
    goes beyond the bound, so that nothing is lost.
    """

    class Empty(Exception):  # noqa: N818 (the name that scripts know from ML-Agents)
        """Nothing is waiting."""

    def __init__(self, behavior_id: str, maxlen: int = 0, ends: Callable[[], bool] = lambda: False) -> None:
        """`maxlen` 0: no bound."""
        self._behavior_id = behavior_id
        self._maxlen = maxlen
        self._ends = ends
        self._items: deque[T] = deque()
        self._room = Condition()

    @property
    def behavior_id(self) -> str:
        """The behavior whose items pass through here."""
        return self._behavior_id

    @property
    def maxlen(self) -> int:
        """The bound; 0 without one."""
        return self._maxlen

    def qsize(self) -> int:
        """How many items wait."""
        return len(self._items)

    def empty(self) -> bool:
        """No item waits."""
        return not self._items

    def put(self, item: T) -> None:
        """Append the item, as soon as there is room."""
        if self._maxlen <= 0:
            self._items.append(item)  # one atomic operation, no lock needed
            return
        with self._room:
            while len(self._items) >= self._maxlen and not self._ends():
                self._room.wait(ASK_SECONDS)
            self._items.append(item)

    def get_nowait(self) -> T:
        """The oldest item; `AgentManagerQueue.Empty` when there is none."""
        try:
            item = self._items.popleft()
        except IndexError:
            raise AgentManagerQueue.Empty(f"the queue of {self._behavior_id} is empty") from None
        self._notify()
        return item

    def drain(self) -> list[T]:
        """Every item that waits now, oldest first. What is put meanwhile stays for the next time."""
        items: list[T] = []
        for _ in range(len(self._items)):
            try:
                items.append(self._items.popleft())
            except IndexError:  # another thread took it
                break
        if items:
            self._notify()
        return items

    def _notify(self) -> None:
        if self._maxlen > 0:
            with self._room:
                self._room.notify_all()
