"""Full names of behaviours are taken apart as ML-Agents does."""

import pytest
from goldendata import cases
from lanista.envs.base import BehaviorName, behavior_id


@pytest.mark.parametrize("case", cases("wire", "behavior_name"))
def test_parses_as_the_reference_does(case):
    name, expected = BehaviorName.parse(case["inputs"]["name"]), case["expected"]
    assert name.behavior_id == expected["behavior_id"]
    assert name.name == expected["brain_name"]
    assert name.team_id == expected["team_id"]
    assert name.rebuilt == expected["rebuilt"]


def test_names_with_a_colon_or_a_hash_stay_whole():
    assert BehaviorName.parse("House:Cat#1?team=2").name == "House:Cat#1"


def test_builds_what_it_parses():
    assert BehaviorName.parse(behavior_id("Ball", 3)) == BehaviorName("Ball?team=3", "Ball", 3)


def test_a_team_that_is_no_number_is_named():
    with pytest.raises(ValueError, match=r"'red'.*whole number"):
        BehaviorName.parse("Ball?team=red")
