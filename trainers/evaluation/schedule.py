"""When the tests of a behaviour fall due."""

from __future__ import annotations


class TestSchedule:
    """Tests fall due at the multiples of `frequency`.

    Where several behaviours are in one environment they are tested together, whenever one of them is due. A
    test that comes early by less than half an interval stands for the one that was to come.
    """

    __test__ = False

    def __init__(self, frequency: int, step: int = 0) -> None:
        """`frequency`: trainer steps between tests; -1: never. `step`: where the run begins."""
        self.frequency = frequency
        self.due = max(frequency, 1) * (step // max(frequency, 1) + 1)
        """The step from which on a test is due."""

    @property
    def on(self) -> bool:
        """Whether there are tests."""
        return self.frequency > 0

    def is_due(self, step: int) -> bool:
        """Whether the behaviour is to be tested at `step`."""
        return self.on and step >= self.due

    def tested(self, step: int) -> None:
        """A test took place at `step`."""
        self.due = self.frequency * ((step + self.frequency // 2) // self.frequency + 1)

    def restore(self, step: int, due: int | None) -> None:
        """Go on at `step`, where `due` was saved; else, and with another frequency, at the next multiple."""
        if not self.on:
            return
        fits = due is not None and due % self.frequency == 0 and due - step <= 3 * self.frequency // 2
        self.due = due if due is not None and fits else self.frequency * (step // self.frequency + 1)
