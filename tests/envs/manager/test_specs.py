"""The behaviors of all environments of a run have to agree."""

import pytest
from fake_engine import ball_spec
from lanista.envs.manager.specs import MergedSpecs, SpecConflictError
from mlagents_envs.base_env import ActionSpec, BehaviorSpec


def test_teams_of_one_behavior_that_differ_are_refused_with_both_described():
    merged = MergedSpecs()
    before = merged.add({"Ball?team=0": ball_spec(), "Goalie?team=1": ball_spec(5)}, {}, "one")
    others = {**before, "Ball?team=1": ball_spec(), "Ball?team=2": ball_spec(5)}
    with pytest.raises(
        SpecConflictError, match=r"Ball\?team=0 and Ball\?team=2 are teams of one behavior"
    ) as told:
        merged.add(others, before, "one")
    assert "Ball?team=2: observations [(5,)]" in str(told.value)
    assert dict(merged.view) == dict(before), "it leaves no trace"
    del others["Ball?team=2"]
    assert set(merged.add(others, before, "one")) == set(others)


def test_teams_of_one_behavior_with_other_actions_are_refused():
    spec = BehaviorSpec(ball_spec().observation_specs, ActionSpec(1, (3,)))
    shown = {"Ball?team=0": ball_spec(), "Ball?team=1": spec}
    with pytest.raises(SpecConflictError, match=r"1 continuous actions, discrete branches \(3,\)"):
        MergedSpecs().add(shown, {}, "one")


@pytest.mark.parametrize(
    ("name", "most", "what"), [("Walker{}?team=0", 200, "201 behaviors"), ("W?team={}", 2000, "2,001 teams")]
)
def test_a_game_that_counts_in_its_names_is_refused_with_its_newest_ones(name, most, what):
    """Each new behavior had got networks of its own, until memory was full."""
    spec = ball_spec()
    merged = MergedSpecs()
    shown = {name.format(number): spec for number in range(most)}
    before = merged.add(shown, {}, "environment 0")
    shown[name.format(most)] = spec
    with pytest.raises(SpecConflictError, match=f"environment 0: .*{most}.*{what}") as raised:
        merged.add(shown, before, "environment 0")
    assert repr(name.format(most)) in str(raised.value) and len(merged.view) == most
