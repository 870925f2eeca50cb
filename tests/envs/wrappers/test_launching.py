"""Engines that are started again for another seed."""

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from lanista.envs.side_channels import EnvironmentParametersChannel
from lanista.envs.wrappers import UnityGymException, UnityToGymWrapper, launch, make_gym
from lanista.envs.wrappers.launching import LaunchedEnvironment, ReseededEnvironment
from mlagents_envs.exception import UnityEnvironmentException
from toldsteps import Asks, Told

STILL = np.zeros(2, np.float32)


class Starts:
    """Starts scripted engines, whose agent sees the seed at first."""

    def __init__(self, fails_at=None):
        self.engines, self.seeds, self.fails_at = [], [], fails_at

    def __call__(self, seed):
        assert all(engine.closed for engine in self.engines), "one after the other: they share a port"
        if seed == self.fails_at:
            raise UnityEnvironmentException("it does not start")
        self.seeds.append(seed)
        self.engines.append(Told([[Asks(0, seed)], [Asks(0, 1)]]))
        return self.engines[-1]


def test_a_seed_starts_the_engine_again_unless_it_has_just_been_started_with_it():
    starts = Starts()
    env = UnityToGymWrapper(ReseededEnvironment(starts, 3))
    assert env.reset(seed=3)[0] == 3 and starts.seeds == [3]
    env.step(STILL)
    env.reset()
    assert starts.seeds == [3], "without a seed its chance goes on"
    assert env.reset(seed=3)[0] == 3 and starts.seeds == [3, 3]
    assert env.reset(seed=5)[0] == 5 and starts.seeds == [3, 3, 5]
    assert [engine.resets for engine in starts.engines] == [2, 1, 1]
    env.close()
    assert starts.engines[-1].closed


def test_seeds_of_any_size_fit():
    starts = Starts()
    env = UnityToGymWrapper(ReseededEnvironment(starts, 2**40 + 1))
    env.reset(seed=2**31 + 7)
    assert starts.seeds == [1, 7]


def test_parameters_outlive_a_new_start():
    starts = Starts()
    env = UnityToGymWrapper(ReseededEnvironment(starts, 3))
    env.reset(options={"parameters": {"mass": 2.0}})
    env.reset(seed=4, options={"parameters": {"size": 1.0}})
    assert starts.engines[1].parameters == {"mass": 2.0, "size": 1.0}


def test_an_engine_that_does_not_start_again_leaves_nothing_to_close():
    starts = Starts(fails_at=4)
    env = UnityToGymWrapper(ReseededEnvironment(starts, 3))
    env.reset()
    with pytest.raises(UnityEnvironmentException, match="does not start"):
        env.reset(seed=4)
    env.close()


@pytest.mark.parametrize("scene", ["scene:ball3d?areas=1", "scene:basic"])
def test_a_scene_plays_the_same_from_the_same_seed(scene):
    env = make_gym(scene, seed=1)
    played = []
    for seed in (5, 6, 5):
        env.action_space.seed(1)
        seen, _ = env.reset(seed=seed)
        steps = [env.step(env.action_space.sample())[:2] for _ in range(5)]
        played.append(np.concatenate([seen, *(np.append(*step) for step in steps)]))
    env.close()
    np.testing.assert_array_equal(played[0], played[2])
    assert scene == "scene:basic" or (played[0] != played[1]).any()


def test_a_start_can_be_refused(caplog):
    env = make_gym("scene:basic", reseed=False)
    pid = env._stepper.env._env._connection._process.pid
    env.reset()
    env.reset(seed=4)
    assert env._stepper.env._env._connection._process.pid == pid
    assert "does not reach the engine" in caplog.text
    env.close()


def test_channels_of_ones_own_take_the_place_of_ours():
    channel = EnvironmentParametersChannel()
    env = launch("scene:ball3d?areas=1", side_channels=[channel], parameters={"mass": 5.0}, seed=1)
    assert channel.message_queue, "sent with the first reset"
    env.reset()
    assert not channel.message_queue
    assert env.side_channel["EnvironmentParametersChannel"] is channel
    assert set(env.side_channel) == {
        "EngineConfigurationChannel", "EnvironmentParametersChannel", "StatsSideChannel"
    }  # fmt: skip
    env.close()


def test_wrong_names_are_told_before_anything_is_started():
    with pytest.raises(TypeError, match=r"Unknown engine option 'no_graphic'.*did you mean 'no_graphics'"):
        make_gym("scene:basic", no_graphic=True)
    with pytest.raises(UnityEnvironmentException, match="basic"):
        make_gym("scene:basik")


def test_an_engine_that_cannot_be_wrapped_is_ended():
    starts = []
    real = LaunchedEnvironment.close

    def close(self):
        starts.append(self)
        real(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LaunchedEnvironment, "close", close)
        with pytest.raises(UnityGymException, match="but 3 were detected"):
            make_gym("scene:ball3d?areas=3")
    (env,) = starts
    assert env._env._connection._process.returncode is not None


@pytest.mark.parametrize(
    ("missing", "wanted", "told"),
    [
        ("gymnasium", "make_gym", "not installed: pip install 'lanista[gymnasium]'"),
        ("pettingzoo", "UnityParallelEnv", "not installed: pip install 'lanista[pettingzoo]'"),
        ("stable_baselines3", "make_sb3", "not installed: pip install stable-baselines3"),
    ],
)
def test_a_missing_library_is_named_with_how_to_get_it(missing, wanted, told):
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        f"from lanista.envs.wrappers import {wanted}\n"
        f"{wanted}('scene:basic')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert told in done.stderr.splitlines()[-1]


def test_an_engine_that_died_is_told_and_started_again_by_a_seed():
    env = make_gym("scene:ball3d?areas=1", seed=1)
    env.reset()
    env._stepper.env._env._connection._process.kill()
    with pytest.raises(UnityEnvironmentException, match="SIGKILL"):
        env.step(STILL)
    seen, _ = env.reset(seed=2)
    assert seen in env.observation_space
    env.step(STILL)
    env.close()
