"""UnityEnvironment and Lanista's own scenes, each in its own process, over the real wire."""

import pytest
from lanista.envs.unity import UnityEnvironment
from mlagents_envs.exception import UnityEnvironmentException


@pytest.mark.parametrize(("name", "agents"), [("scene:ball3d?areas=3", 3), ("scene:basic", 1)])
def test_a_scene_is_stepped_reset_and_ended(name, agents, tmp_path):
    env = UnityEnvironment(name, seed=3, log_folder=tmp_path, timeout_wait=60)
    process = env._connection._process
    env.reset()
    ((behavior, spec),) = env.behavior_specs.items()
    for step in range(50):
        decisions, terminals = env.get_steps(behavior)
        assert len(decisions) + len(terminals) > 0
        env.set_actions(behavior, spec.action_spec.random_action(len(decisions)))
        env.step()
        if step == 25:
            env.reset()
            assert len(env.get_steps(behavior)[0]) == agents
    env.close()
    assert process.returncode == 0


def test_an_unknown_scene_tells_the_known_ones():
    with pytest.raises(UnityEnvironmentException, match=r"no scene 'nosuch'.*ball3d"):
        UnityEnvironment("scene:nosuch", timeout_wait=60)
