"""Several engines as one."""

import numpy as np
import pytest

pytest.importorskip("gymnasium", minversion="1.1")

from lanista.envs.unity import UnityEnvironment
from lanista.envs.wrappers import launch, make_vector
from lanista.envs.wrappers.launching import JoinedEnvironment
from mlagents_envs.base_env import ActionTuple
from mlagents_envs.exception import UnityActionException, UnityEnvironmentException


def agents_of(decisions, count, index):
    """The rows of an engine among those of all, by their ids."""
    return decisions.agent_id % count == index


def test_every_engine_plays_as_it_does_alone():
    scene, random = "scene:dungeon-escape?areas=1", np.random.default_rng(3)
    joined = JoinedEnvironment([UnityEnvironment(scene, worker_id=k, seed=5 + k) for k in range(2)])
    alone = [UnityEnvironment(scene, worker_id=4 + k, seed=5 + k) for k in range(2)]
    for env in (joined, *alone):
        env.reset()
    (name,) = joined.behavior_specs
    ended = 0
    for _ in range(150):
        decisions, terminals = joined.get_steps(name)
        ended += len(terminals)
        chosen = random.integers(0, 7, (len(decisions), 1)).astype(np.int32)
        for k, env in enumerate(alone):
            theirs = env.get_steps(name)
            for all_of, own in zip((decisions, terminals), theirs):
                rows = agents_of(all_of, 2, k)
                np.testing.assert_array_equal(all_of.agent_id[rows] // 2, own.agent_id)
                np.testing.assert_array_equal(all_of.reward[rows], own.reward)
                np.testing.assert_array_equal(all_of.group_reward[rows], own.group_reward)
                np.testing.assert_array_equal(all_of.group_id[rows] // 2, own.group_id)
                for seen, expected in zip(all_of.obs, own.obs):
                    np.testing.assert_array_equal(seen[rows], expected)
            own, rows = theirs[0], agents_of(decisions, 2, k)
            if len(own):
                np.testing.assert_array_equal(decisions.action_mask[0][rows], own.action_mask[0])
            env.set_actions(name, ActionTuple(discrete=chosen[rows]))
            env.step()
        joined.set_actions(name, ActionTuple(discrete=chosen))
        joined.step()
    assert ended
    with pytest.raises(UnityActionException):
        joined.set_actions(name, ActionTuple(discrete=np.zeros((99, 1), np.int32)))
    processes = [engine._connection._process for engine in joined._engines]
    for env in (joined, *alone):
        env.close()
    assert all(process.returncode is not None for process in processes)


def test_a_vector_has_the_agents_of_all_engines():
    env = make_vector("scene:ball3d?areas=3", seed=2, num_engines=2, parameters={"mass": 3.0})
    assert env.num_envs == 6
    first, _ = env.reset(seed=2)
    env.step(env.action_space.sample())
    again, _ = env.reset(seed=2)
    np.testing.assert_array_equal(first, again)
    assert (first[:3] != first[3:]).any(), "each has a seed of its own"
    env.close()


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        (None, {"num_engines": 2}, "only one Editor"),
        ("scene:basic", {"num_engines": 0}, "needs at least 1"),
        ("gymnasium:CartPole-v1", {"num_engines": 2}, "Set num_areas=2"),
        ("scene:basic", {"num_engines": 2, "side_channels": [object()]}, "belongs to one engine"),
    ],
)
def test_a_number_of_engines_that_cannot_be_is_refused(name, options, told):
    with pytest.raises(UnityEnvironmentException, match=told):
        launch(name, **options)
