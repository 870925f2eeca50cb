"""Lessons, their seeds and the episodes that they are measured by, as ML-Agents 1.1.0 has them."""

import re

import goldendata
import pytest
from lanista.trainers.curriculum import Curriculum, TrainingProgress
from lanista.trainers.settings import RunOptions
from lanista.trainers.settings.models.environment_parameters import with_seeds


def test_every_kind_is_tested():
    assert goldendata.kinds("curriculum") <= {"seeds", "lessons", "min_buffer"}


def parameters_of(case):
    options = RunOptions.from_dict({"environment_parameters": case["inputs"]["environment_parameters"]})
    return options.environment_parameters


def plain(lesson, text):
    """A lesson as it is compared: 1 and 1.0 are the same number, also in the text."""
    return lesson["name"], lesson["value"], re.sub(r"=(-?\d+)$", r"=\1.0", text)


@pytest.mark.parametrize("case", goldendata.cases("curriculum", "seeds"))
def test_seeds_and_texts(case):
    seeded = with_seeds(parameters_of(case), case["inputs"]["run_seed"])
    for name, lessons in case["expected"]["lessons"].items():
        ours = [plain(x.as_dict(), x.value.description()) for x in seeded[name].curriculum]
        assert ours == [plain(x, x["text"]) for x in lessons]


@pytest.mark.parametrize("case", goldendata.cases("curriculum", "min_buffer"))
def test_as_many_returns_are_kept_as_the_longest_lesson_needs(case):
    curriculum = Curriculum(parameters_of(case))
    for behavior, capacity in case["expected"]["capacity"].items():
        assert curriculum.returns_kept(behavior) == capacity


@pytest.mark.parametrize("case", goldendata.cases("curriculum", "lessons"))
def test_lessons_end_when_they_end_in_ml_agents(case):
    inputs = case["inputs"]
    curriculum = Curriculum(parameters_of(case), inputs["run_seed"])
    assert inputs["updates"]
    for update, expected in zip(inputs["updates"], case["expected"]["after_each"], strict=True):

        def progress(behavior):
            if behavior not in update["steps"]:  # noqa: B023
                return None
            returns = [goldendata.number(x) for x in update["reward_buffers"][behavior]]  # noqa: B023
            return TrainingProgress(update["steps"][behavior], update["max_steps"][behavior], returns)  # noqa: B023

        advance = curriculum.advance(progress)
        assert (advance is not None) == expected["lesson_changed"]
        assert (advance is not None and advance.reset) == expected["must_reset"]
        assert curriculum.numbers == expected["lesson_numbers"]
        assert curriculum.smoothed == pytest.approx(expected["smoothed"], rel=1e-5, abs=1e-6)
        samplers = {name: sampler.as_sampler() for name, sampler in curriculum.samplers().items()}
        assert samplers == expected["current_samplers"]
