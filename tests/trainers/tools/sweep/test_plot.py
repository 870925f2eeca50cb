"""The plot of a sweep: every label is whole, and none lies over another."""

from itertools import pairwise

import pytest
from lanista.trainers.tools.sweep.plot import plot_sweep
from lanista.trainers.tools.sweep.settings import Parameter
from lanista.trainers.tools.sweep.space import Dimension
from lanista.trainers.tools.sweep.trial import TrialSummary

pytestmark = pytest.mark.slow

PARAMETERS = {
    "learning_rate": Parameter(min=8e-5, max=1.2e-2, log=True),
    "beta": Parameter(min=1e-7, max=10, log=True),
    "buffer_size": Parameter(min=1000, max=100000, log=True),
    "gamma": Parameter(values=[0.9, 0.95, 0.99, 0.995, 0.999]),
    "vis_encode_type": Parameter(values=["fully_connected", "nature_cnn", "resnet", "match3", "simple"]),
    "max_steps": Parameter(values=[1000000, 2000000, 3000000, 4000000, 5000000]),
    "units": Parameter(values=[512, 32, 128]),
    "normalize": Parameter(values=[True, False]),
    "layers": Parameter(min=1, max=3),
}


@pytest.fixture(scope="module")
def figure():
    space = [Dimension(name, one, name in ("buffer_size", "layers")) for name, one in PARAMETERS.items()]
    trials = [
        TrialSummary(n, "done", 10.0 * n, 5, 1.0, {d.key: d.ends[n % len(d.ends)] for d in space}, "", "")
        for n in range(4)
    ]
    names = {name: name for name in PARAMETERS}
    drawn = plot_sweep(trials, space, names, "Environment/Cumulative Reward", maximize=True, title="ball")
    drawn.draw_without_rendering()
    return drawn


def labels(axis):
    """Those that are drawn: matplotlib keeps ticks beyond the ends too."""
    low, high = axis.get_xlim()
    return [text for text in axis.get_xticklabels() if low <= text.get_position()[0] <= high]


def test_no_label_lies_over_another_or_outside_of_the_picture(figure):
    for axis in filter(lambda axis: axis.get_visible(), figure.axes):
        boxes = [text.get_window_extent() for text in labels(axis)]
        assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 for box in boxes), axis.get_xlabel()
        if axis.get_xticklabels()[0].get_rotation() == 0:
            assert all(left.x1 <= right.x0 for left, right in pairwise(boxes)), axis.get_xlabel()


def test_values_of_a_list_are_all_named_in_full_and_numbers_in_order(figure):
    shown = {axis.get_xlabel(): [text.get_text() for text in labels(axis)] for axis in figure.axes}
    assert shown["gamma"] == ["0.9", "0.95", "0.99", "0.995", "0.999"]
    assert shown["vis_encode_type"][0] == "fully_connected" and len(shown["vis_encode_type"]) == 5
    assert shown["units"] == ["32", "128", "512"]
    assert shown["learning_rate (log)"] == ["8e-05", "0.001", "0.012"]
