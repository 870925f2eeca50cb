"""The values of parameters, as Optuna samples them and as runs receive them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.trainers.settings import RunOptions
from lanista.trainers.tools.sweep.commands import as_text
from lanista.trainers.tools.sweep.settings import Parameter
from lanista.trainers.tools.sweep.space import Dimension, grid, holds_whole_number, short_names

pytest.importorskip("optuna")


def test_an_integer_range_is_sampled_in_integers():
    one = Dimension("units", Parameter(min=16, max=64, step=16), whole=True)
    drawn = one.distribution()
    assert (drawn.low, drawn.high, drawn.step) == (16, 64, 16)
    assert one.all == [16, 32, 48, 64] and all(isinstance(value, int) for value in one.all)


def test_a_range_of_a_float_key_is_continuous_despite_integer_ends():
    one = Dimension("gamma", Parameter(min=0, max=1), whole=False)
    assert one.distribution().step is None and one.all is None


def test_fractional_steps_add_up():
    one = Dimension("lambd", Parameter(min=0.9, max=1.0, step=0.05), whole=False)
    assert one.all == [0.9, 0.95, 1.0]


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9, 9),
    st.floats(-1, 1),
    st.text(max_size=3),
    st.lists(st.integers()),
)


@given(st.lists(VALUES, min_size=2, max_size=5, unique_by=lambda v: (type(v).__name__, as_text(v))))
def test_every_listed_value_is_sampled_unchanged(values):
    one = Dimension("any", Parameter.model_construct(values=values), whole=False)
    texts = [value for value in values if isinstance(value, list)]
    if any(as_text(text) in values for text in texts):
        return  # a list and its own text, which is never meant
    for value in values:
        back = one.value(one.drawn(value))
        assert back == value and type(back) is type(value)


def test_a_grid_is_every_combination():
    space = [Dimension("a", Parameter(values=[1, 2]), True), Dimension("b", Parameter(min=0, max=2), True)]
    points = grid(space)
    assert len(points) == 6 and {"a": 2, "b": 1} in points


def test_the_type_of_a_key_is_read_from_the_settings():
    options = RunOptions.from_text("behaviors: {B: {trainer_type: ppo, hyperparameters: {learning_rate: 1}}}")
    path = ("behaviors", "B")
    assert holds_whole_number(options, (*path, "hyperparameters", "batch_size")) is True
    assert holds_whole_number(options, (*path, "hyperparameters", "learning_rate")) is False
    assert holds_whole_number(options, (*path, "threaded")) is None


def test_names_are_as_short_as_possible_and_unique():
    names = short_names(["a.x.rate", "a.y.rate", "a.y.units"])
    assert list(names.values()) == ["x.rate", "y.rate", "units"]
