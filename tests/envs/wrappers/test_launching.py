"""Engines that are restarted for another seed, and several engines as one."""

import subprocess
import sys
import uuid

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from lanista.envs.side_channels import EnvironmentParametersChannel, FloatPropertiesChannel
from lanista.envs.side_channels.messages import IncomingMessage
from lanista.envs.unity import UnityEnvironment
from lanista.envs.utils.installation import install_command
from lanista.envs.wrappers import UnityGymException, UnityToGymWrapper, launch, make_gym, make_vector
from lanista.envs.wrappers.launching import JoinedEnvironment, LaunchedEnvironment, ReseededEnvironment
from mlagents_envs.base_env import ActionTuple
from mlagents_envs.exception import UnityActionException, UnityEnvironmentException
from scripted_env import Asks, ScriptedEnv


class Foreign:
    """A channel as ML-Agents has them: of another class, without what Lanista's can do besides."""

    channel_id = uuid.UUID(int=3)

    def __init__(self):
        self.message_queue = []

    def on_message_received(self, msg):
        pass


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
        self.engines.append(ScriptedEnv([[Asks(0, seed)], [Asks(0, 1)]]))
        return self.engines[-1]


@pytest.mark.slow
def test_games_of_unreal_are_launched_joined_and_reseeded():
    env = launch("unreal:scene:basic", num_engines=2, seed=3)
    env.reset()
    env.step()
    (name,) = env.behavior_specs
    assert len(env.get_steps(name)[0]) == 2
    env.close()
    env = launch("unreal:scene:basic", seed=3)
    assert isinstance(env, ReseededEnvironment)
    assert env.reseed(4)
    env.reset()
    env.close()
    with pytest.raises(UnityEnvironmentException, match="only one editor"):
        launch("unreal:", num_engines=2)


def test_a_new_seed_restarts_the_engine():
    starts = Starts()
    env = UnityToGymWrapper(ReseededEnvironment(starts, 3))
    assert env.reset(seed=3)[0] == 3 and starts.seeds == [3]
    env.step(STILL)
    env.reset()
    assert starts.seeds == [3], "without a seed its random numbers continue"
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


def test_parameters_survive_a_restart():
    starts = Starts()
    env = UnityToGymWrapper(ReseededEnvironment(starts, 3))
    env.reset(options={"parameters": {"mass": 2.0}})
    env.reset(seed=4, options={"parameters": {"size": 1.0}})
    assert starts.engines[1].parameters == {"mass": 2.0, "size": 1.0}


@pytest.mark.slow
def test_what_is_set_on_channels_survives_a_restart():
    env = launch("scene:ball3d?areas=1", seed=3, time_scale=20.0)
    engine = env.side_channel["EngineConfigurationChannel"]
    parameters = env.side_channel["EnvironmentParametersChannel"]
    engine.set_configuration_parameters(time_scale=2.0, target_frame_rate=30)
    engine.set_configuration_parameters(target_frame_rate=50)
    parameters.set_float_parameter("mass", 4.0)
    kinds = engine.ConfigurationType
    for seed in (4, 5):
        env.reset()
        assert not engine.message_queue and not parameters.message_queue
        assert env.reseed(seed)
        scale, rate = map(IncomingMessage, engine.message_queue)
        assert (scale.read_int32(), scale.read_float32()) == (kinds.TIME_SCALE, 2.0)
        assert (rate.read_int32(), rate.read_int32()) == (kinds.TARGET_FRAME_RATE, 50)
        (mass,) = map(IncomingMessage, parameters.message_queue)
        assert (mass.read_string(), mass.read_int32(), mass.read_float32()) == ("mass", 0, 4.0)
    env.reseed(6)
    assert len(engine.message_queue) == 2, "what waits is not sent twice"
    env.close()


def test_of_all_channels_the_last_setting_counts_after_a_restart():
    """Whichever way it was set; two channels of one class, and ML-Agents' own, are no hindrance."""
    first, second = (FloatPropertiesChannel(uuid.UUID(int=number)) for number in (1, 2))
    env = launch(
        "scene:ball3d?areas=1", seed=1, parameters={"mass": 2.0}, side_channels=[first, second, Foreign()]
    )
    parameters = env.side_channel["EnvironmentParametersChannel"]
    first.set_property("x", 1.0)
    second.set_property("y", 1.0)
    env.reset()
    parameters.set_float_parameter("mass", 5.0)
    env.reset()
    env.reseed(2)
    assert (len(first.message_queue), len(second.message_queue)) == (1, 1)
    (mass,) = map(IncomingMessage, parameters.message_queue)
    assert (mass.read_string(), mass.read_int32(), mass.read_float32()) == ("mass", 0, 5.0)
    env.close()


def test_a_failed_restart_leaves_nothing_to_close():
    starts = Starts(fails_at=4)
    env = UnityToGymWrapper(ReseededEnvironment(starts, 3))
    env.reset()
    with pytest.raises(UnityEnvironmentException, match="does not start"):
        env.reset(seed=4)
    env.close()


@pytest.mark.slow
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


def test_restarts_can_be_disabled(caplog):
    env = make_gym("scene:basic", reseed=False)
    pid = env._stepper.env._env._connection._process.pid
    env.reset()
    env.reset(seed=4)
    assert env._stepper.env._env._connection._process.pid == pid
    assert "does not reach the engine" in caplog.text
    env.close()


def test_side_channels_of_the_caller_replace_the_default_ones():
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


def test_wrong_parameter_names_are_reported_before_anything_is_launched():
    with pytest.raises(TypeError, match=r"Unknown engine option 'no_graphic'.*did you mean 'no_graphics'"):
        make_gym("scene:basic", no_graphic=True)
    with pytest.raises(UnityEnvironmentException, match="basic"):
        make_gym("scene:basik")


def test_an_engine_that_cannot_be_wrapped_is_closed():
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
    ("missing", "wanted", "message"),
    [
        ("gymnasium", "make_gym", install_command("gymnasium")),
        ("pettingzoo", "UnityParallelEnv", install_command("pettingzoo")),
        ("stable_baselines3", "make_sb3", "pip install stable-baselines3"),
    ],
)
def test_a_missing_library_is_named_with_how_to_install_it(missing, wanted, message):
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        f"from lanista.envs.wrappers import {wanted}\n"
        f"{wanted}('scene:basic')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"not installed: {message}" in done.stderr.splitlines()[-1]


def test_a_dead_engine_is_reported_and_restarted_by_a_seed():
    env = make_gym("scene:ball3d?areas=1", seed=1)
    env.reset()
    env._stepper.env._env._connection._process.kill()
    with pytest.raises(UnityEnvironmentException, match="SIGKILL"):
        env.step(STILL)
    seen, _ = env.reset(seed=2)
    assert seen in env.observation_space
    env.step(STILL)
    env.close()


def agents_of(decisions, count, index):
    """The rows of an engine among those of all, by their ids."""
    return decisions.agent_id % count == index


@pytest.mark.slow
def test_joined_engines_behave_as_they_do_alone():
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


def test_a_vector_env_has_the_agents_of_all_engines():
    pytest.importorskip("gymnasium", minversion="1.1")
    env = make_vector("scene:ball3d?areas=3", seed=2, num_engines=2, parameters={"mass": 3.0})
    assert env.num_envs == 6
    first, _ = env.reset(seed=2)
    env.step(env.action_space.sample())
    again, _ = env.reset(seed=2)
    np.testing.assert_array_equal(first, again)
    assert (first[:3] != first[3:]).any(), "each has a seed of its own"
    env.close()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (None, {"num_engines": 2}, "only one editor"),
        ("scene:basic", {"num_engines": 0}, "needs at least 1"),
        ("gymnasium:CartPole-v1", {"num_engines": 2}, "Set num_areas=2"),
        ("scene:basic", {"num_engines": 2, "side_channels": [object()]}, "belongs to one engine"),
    ],
)
def test_an_invalid_number_of_engines_is_refused(name, options, message):
    with pytest.raises(UnityEnvironmentException, match=message):
        launch(name, **options)
