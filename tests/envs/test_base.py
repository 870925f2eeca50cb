"""Full names of behaviors are split as ML-Agents does."""

import numpy as np
import pytest
from goldendata import cases
from lanista.envs.base import BehaviorName, behavior_id, no_steps
from lanista.envs.scenes.in_process import make_in_process
from mlagents_envs.base_env import DecisionSteps, TerminalSteps


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


def test_a_team_that_is_not_a_number_is_an_error():
    with pytest.raises(ValueError, match=r"'red'.*whole number"):
        BehaviorName.parse("Ball?team=red")


# Steps without agents, on every NumPy: that of mlagents-envs needs a name that NumPy 1.24 to 1.26 lack


def test_steps_without_agents_are_those_of_mlagents_envs(monkeypatch):
    env = make_in_process("scene:sorter?areas=1", seed=1)
    env.reset()
    (spec,) = env.behavior_specs.values()
    monkeypatch.setattr(np, "bool", np.bool_, raising=False)
    for ours, theirs in zip(no_steps(spec), (DecisionSteps.empty(spec), TerminalSteps.empty(spec))):
        assert type(ours) is type(theirs) and len(ours) == 0
        for name, column in vars(theirs).items():
            for mine, other in zip(_arrays(getattr(ours, name)), _arrays(column), strict=True):
                assert (mine.dtype, mine.shape) == (other.dtype, other.shape), name


def _arrays(column):
    if isinstance(column, list):
        return column
    return [column] if isinstance(column, np.ndarray) else []


def test_a_scene_without_agents_needs_no_new_name_of_numpy(monkeypatch):
    env = make_in_process("scene:ball3d?areas=1", seed=1)
    env.reset()
    (name,) = env.behavior_specs
    monkeypatch.delattr(np, "bool", raising=False)
    env._take({})
    assert [len(steps) for steps in env.get_steps(name)] == [0, 0]
