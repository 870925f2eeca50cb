"""Worlds as environments without a process."""

from contextlib import closing

import numpy as np
import pytest
from lanista.envs.engines.options import EngineOptions
from lanista.envs.manager.manager import EnvManager
from lanista.envs.opening import open_environment
from lanista.envs.scenes.in_process import WorldEnvironment, make_in_process
from lanista.envs.scenes.worlds.grid_world import PLUS
from mlagents_envs.base_env import ActionTuple
from mlagents_envs.exception import UnityActionException, UnityEnvironmentException, UnitySideChannelException


def test_makes_a_scene_with_options_from_its_name_and_from_arguments():
    assert make_in_process("scene:ball3d").world.areas == 12
    assert make_in_process("scene:ball3d?areas=3").world.areas == 3
    assert make_in_process("scene:ball3d", arguments=["--areas", "2"]).world.areas == 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("scene:bal3d", "Did you mean 'ball3d'"),
        ("scene:ball3d?area=3", "unknown option --area"),
        ("scene:ball3d?areas=many", "invalid int value: 'many'"),
        ("scene:ball3d?areas=0", "at least 1"),
    ],
)
def test_unknown_scenes_and_options_are_refused(name, message):
    with pytest.raises(UnityEnvironmentException, match=message):
        make_in_process(name)


class Ten:
    """A distribution, which sends itself as those of the configuration do."""

    def apply(self, key, channel):
        channel.set_uniform_sampler_parameters(key, 10.0, 10.0, seed=1)


def test_a_manager_sets_its_parameters_as_those_of_a_process():
    env = make_in_process("scene:grid?areas=2", seed=1)
    with EnvManager(lambda index: env, 1) as manager:
        manager.start()
        manager.reset({"gridSize": Ten(), "numPlusGoals": 3})
    np.testing.assert_array_equal(env.world.cells, 10)
    assert (env.world.kinds == PLUS).sum() == 2 * 3


def test_a_parameter_that_is_no_number_is_refused_by_its_name():
    with pytest.raises(UnitySideChannelException, match="'gridSize' is 'large'"):
        make_in_process("scene:grid").set_parameters({"gridSize": "large"})


def test_steps_like_any_environment():
    env = make_in_process("scene:basic?areas=2", seed=1)
    env.step()
    (name,) = env.behavior_specs
    decisions, terminals = env.get_steps(name)
    assert (len(decisions), len(terminals)) == (2, 0)
    assert [part.shape for part in decisions.action_mask] == [(2, 3)]
    for _ in range(3):
        env.set_actions(name, ActionTuple(discrete=np.array([[1], [2]], np.int32)))
        env.step()
    decisions, terminals = env.get_steps(name)
    assert list(terminals.agent_id) == [0]
    assert terminals.reward[0] == pytest.approx(0.09)
    assert list(decisions.agent_id) == [2, 1]
    env.set_action_for_agent(name, 1, ActionTuple(discrete=np.array([[2]], np.int32)))
    env.step()
    assert list(env.world.position) == [10, 14]
    with pytest.raises(UnityActionException, match="Nobody"):
        env.get_steps("Nobody")
    env.close()


@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize(
    ("path", "num_areas", "arguments", "agents"),
    [
        ("scene:basic?areas=3", 1, (), 3),
        ("scene:basic?areas=3", 2, (), 2),
        ("scene:basic", 1, ("--areas", "3"), 3),
        ("scene:basic", 2, ("--areas", "3"), 2),
    ],
)
def test_as_many_areas_are_drawn_as_an_engine_has(path, num_areas, arguments, agents, drawn):
    options = EngineOptions(path=path, num_areas=num_areas, additional_args=arguments, drawn=drawn)
    with closing(open_environment(options)) as env:
        env.reset()
        assert len(env.get_steps("Basic?team=0")[0]) == agents


def test_only_a_world_with_a_renderer_can_be_drawn():
    env = make_in_process("scene:basic", seed=1)
    env.reset()
    assert env.draw().shape == (400, 640, 3)
    with pytest.raises(NotImplementedError, match="Basic has no renderer"):
        WorldEnvironment(env.world).draw()
