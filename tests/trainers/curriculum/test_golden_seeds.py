"""Seeds of samplers as ML-Agents 1.1.0 gives them."""

import re

import goldendata
import pytest
from lanista.trainers.curriculum.settings import with_seeds
from lanista.trainers.settings import RunOptions

LATER = {
    "lessons": "going through lessons",
    "min_buffer": "the trainer's buffer of episode returns",
}
"""Kinds of the reference data that this version does not have yet, and why."""


def test_every_kind_is_tested_or_comes_later() -> None:
    assert goldendata.kinds("curriculum") <= {"seeds", *LATER}


def plain(lesson: dict, text: str) -> tuple:
    """A lesson as it is compared: 1 and 1.0 are the same number, also in the text."""
    return lesson["name"], lesson["value"], re.sub(r"=(-?\d+)$", r"=\1.0", text)


@pytest.mark.parametrize("case", goldendata.cases("curriculum", "seeds"))
def test_seeds_and_texts(case: dict) -> None:
    options = RunOptions.from_dict({"environment_parameters": case["inputs"]["environment_parameters"]})
    seeded = with_seeds(options.environment_parameters, case["inputs"]["run_seed"])
    for name, lessons in case["expected"]["lessons"].items():
        ours = [plain(x.as_dict(), x.value.description()) for x in seeded[name].curriculum]
        assert ours == [plain(x, x["text"]) for x in lessons]
