"""A share of the processor time for callers that come to nothing, whatever the machine does besides."""

import pytest
from lanista.envs.engines.limits import WorkBudget


class Clocks:
    def __init__(self) -> None:
        self.now = self.worked = 0.0

    def pass_time(self, seconds: float, worked: float) -> None:
        self.now += seconds
        self.worked += worked


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def budget(clocks: Clocks) -> WorkBudget:
    return WorkBudget(lambda: clocks.now, lambda: clocks.worked)


def taken(budget: WorkBudget, clocks: Clocks, seconds: int, busy: float) -> float:
    """What callers take who come as fast as they may, while the process works so much of the time."""
    total = 0.0
    for _ in range(seconds * 100):
        while budget.wait == 0:
            budget.spend(0.001)
            total += 0.001
        clocks.pass_time(0.01, 0.01 * busy)
    return total


def test_some_callers_are_served_at_once(budget: WorkBudget) -> None:
    for _ in range(40):
        assert budget.wait == 0
        budget.spend(0.001)
    assert budget.wait > 0


@pytest.mark.parametrize("busy", [0.02, 0.1, 1.0])
def test_what_callers_take_is_a_small_share_of_what_the_run_takes(budget, clocks, busy: float) -> None:
    """A fixed rate took a third of the processor time of a run that got little of a busy machine."""
    taken(budget, clocks, 10, busy)
    assert taken(budget, clocks, 1000, busy) < (0.06 + 0.003 / busy) * 1000 * busy


def test_while_the_run_waits_callers_are_served_too(budget, clocks) -> None:
    taken(budget, clocks, 10, 0.0)
    assert taken(budget, clocks, 100, 0.0) > 0.1


def test_who_asks_is_told_when_to_ask_again(budget, clocks) -> None:
    budget.spend(0.041)
    assert budget.wait == pytest.approx(0.5)
    clocks.pass_time(0.45, 0.0)
    assert 0 < budget.wait <= 0.06
    clocks.pass_time(budget.wait + 1e-6, 0.0)
    assert budget.wait == 0
    budget.spend(100.0)
    assert budget.wait == 0.5, "by then the run may have worked"
