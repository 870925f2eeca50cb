"""Schedules reach the reference's values at every step."""

import pytest
from goldendata import cases, number
from lanista.trainers.algorithms.common.optim import Schedule


@pytest.mark.parametrize("case", cases("schedules"))
def test_schedule(case):
    i = case["inputs"]
    schedule = Schedule(i["initial"], i["min"], i["max_step"], linear=i["schedule"] == "linear")
    if "values" not in case["expected"]:
        # The reference divides by zero at max_steps 0; there the floor is reached at once.
        assert schedule(0) == i["min"]
        return
    for step, expected in zip(i["steps"], case["expected"]["values"], strict=True):
        assert schedule(step) == pytest.approx(number(expected), rel=1e-5)
