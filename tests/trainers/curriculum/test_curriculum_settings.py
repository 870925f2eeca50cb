"""Environment parameters: how they are written, seeded and sent to environments."""

import pytest
from lanista.trainers.curriculum import Curriculum
from lanista.trainers.settings import RunOptions, TrainerConfigError
from lanista.trainers.settings.models.environment_parameters import SAMPLERS, with_seeds

TEXT = """
environment_parameters:
  gravity: 9.81
  mass: {sampler_type: uniform, sampler_parameters: {min_value: 0.5, max_value: 10}}
  fixed: {sampler_type: gaussian, sampler_parameters: {seed: 4}}
  wall:
    curriculum:
      - {name: low, value: 1, completion_criteria: {behavior: B}}
      - name: high
        value: {sampler_type: multirangeuniform, sampler_parameters: {intervals: [[1, 2], [4, 5]]}}
"""


class Channel:
    """Records what an environment would receive."""

    def __init__(self):
        self.calls: list[tuple] = []

    def __getattr__(self, name):
        return lambda *args: self.calls.append((name, *args))


def test_seeds_wrap_around_after_31_bits():
    """A message to an engine has no room for larger ones."""
    parameters = RunOptions.from_text(TEXT).environment_parameters
    seeded = with_seeds(parameters, 2**31 - 1)
    assert parameters["gravity"].curriculum[0].value.seed == -1  # the given ones are not changed
    assert [x.value.seed for p in seeded.values() for x in p.curriculum] == [2**31 - 1, 0, 4, 1, 2]


def test_environments_receive_the_first_lesson_of_each_parameter():
    channel = Channel()
    curriculum = Curriculum(RunOptions.from_text(TEXT).environment_parameters, 100)
    for name, sampler in curriculum.samplers().items():
        sampler.apply(name, channel)
    assert channel.calls == [
        ("set_float_parameter", "gravity", 9.81),
        ("set_uniform_sampler_parameters", "mass", 0.5, 10.0, 101),
        ("set_gaussian_sampler_parameters", "fixed", 1.0, 1.0, 4),
        ("set_float_parameter", "wall", 1.0),
    ]
    intervals = SAMPLERS["multirangeuniform"](intervals=[[1, 2]], seed=7)
    intervals.apply("x", channel)
    assert channel.calls[-1] == ("set_multirangeuniform_sampler_parameters", "x", [(1.0, 2.0)], 7)


@pytest.mark.parametrize(
    "written, value",
    [
        ("true", 1.0),
        ("false", 0.0),
        ("3", 3.0),
        ("'1e-2'", 0.01),
        ("{curriculum: [{name: a, value: true}]}", 1.0),
        ("{sampler_type: constant, sampler_parameters: {value: yes}}", 1.0),
    ],
)
def test_booleans_are_one_and_zero(written, value):
    """As ML-Agents reads them; a number in quotes, which it refuses, is a number."""
    parameters = RunOptions.from_text(f"environment_parameters: {{a: {written}}}").environment_parameters
    found = parameters["a"].curriculum[0].value.value
    assert type(found) is float and found == value


@pytest.mark.parametrize("written", ["'true'", "null", "[1]", "red"])
def test_other_values_are_refused(written):
    with pytest.raises(TrainerConfigError, match=r"environment_parameters\.a: found .*expected a number, or"):
        RunOptions.from_text(f"environment_parameters: {{a: {written}}}")


def test_without_parameters_there_are_no_samplers():
    assert Curriculum(RunOptions().environment_parameters).samplers() == {}


def test_a_single_value_is_a_lesson_named_like_its_parameter():
    parameters = RunOptions.from_text("environment_parameters: {g: 1e-3}").environment_parameters
    (lesson,) = parameters["g"].curriculum
    assert (lesson.name, lesson.value.value, lesson.completion_criteria) == ("g", 1e-3, None)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{curriculum: [{name: a, value: 1}], seed: 3}", "p.seed: unknown key"),
        ("{sampler_type: uniform, sampler_parameters: {min_value: 3, max_value: 1}}", "min_value: found 3.0"),
        (
            "{sampler_type: multirangeuniform, sampler_parameters: {intervals: [[1, 2, 3]]}}",
            "the interval .1, 2, 3.",
        ),
        ("{sampler_type: multirangeuniform, sampler_parameters: {intervals: []}}", "intervals: "),
        ("{sampler_type: gaussian, sampler_parameters: {st_dev: -1}}", "st_dev: found -1"),
        ("{curriculum: [{name: a, value: 1}, {name: b, value: 2}]}", "p.curriculum.0: a non-terminal lesson"),
        ("{curriculum: [{value: 1}]}", "p.curriculum.0.name: `name` is required"),
        ("[1, 2]", r"p: found \[1, 2\], expected a number"),
    ],
)
def test_refused(value, message):
    with pytest.raises(TrainerConfigError, match=message):
        RunOptions.from_text(f"environment_parameters: {{p: {value}}}")
