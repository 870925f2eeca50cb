"""The scenes of opponents and of curiosity are over the wire what they are within a process."""

import numpy as np
import pytest
from lanista.envs.scenes.in_process import make_in_process
from lanista.envs.unity import UnityEnvironment
from mlagents_envs.base_env import ActionTuple


def chance(spec, count, random):
    """Random actions of `count` agents."""
    action = spec.action_spec
    continuous = random.uniform(-1, 1, (count, action.continuous_size)).astype(np.float32)
    branches = [random.integers(0, size, count) for size in action.discrete_branches]
    discrete = np.array(branches, np.int32).reshape(len(branches), count).T
    return ActionTuple(continuous, discrete)


@pytest.mark.parametrize(
    ("name", "options", "agents"),
    [
        ("soccer-twos", ["--areas", "2", "--max-steps", "100"], [4, 4]),
        ("soccer-twos", ["--areas", "3", "--size", "small"], [6, 6]),
        ("pyramids", ["--areas", "3", "--max-steps", "100"], [3]),
        ("pyramids", ["--areas", "3", "--size", "small", "--max-steps", "100"], [3]),
        ("tennis", ["--areas", "4"], [4, 4]),
    ],
)
def test_random_play_is_the_same_over_the_wire(name, options, agents):
    random = np.random.default_rng(0)
    here = make_in_process(f"scene:{name}", seed=7, arguments=options)
    there = UnityEnvironment(f"scene:{name}", seed=7, additional_args=options)
    ends = 0
    try:
        here.reset()
        there.reset()
        names = list(here.behavior_specs)
        assert list(there.behavior_specs) == names
        for behavior in names:
            assert there.behavior_specs[behavior] == here.behavior_specs[behavior]
        for _ in range(60):
            for behavior, expected in zip(names, agents):
                ours, theirs = here.get_steps(behavior), there.get_steps(behavior)
                assert len(theirs[0]) == expected
                ends += len(theirs[1])
                for mine, other in zip(ours, theirs):
                    for field in ("reward", "agent_id", "group_id", "group_reward"):
                        np.testing.assert_array_equal(getattr(mine, field), getattr(other, field))
                    for seen, received in zip(mine.obs, other.obs):
                        np.testing.assert_array_equal(seen, received)
                action = chance(here.behavior_specs[behavior], expected, random)
                here.set_actions(behavior, action)
                there.set_actions(behavior, action)
            here.step()
            there.step()
    finally:
        there.close()
    assert ends or "small" in options
