"""Gymnasium environments by their names and arguments."""

import re
import sys

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from lanista.envs.errors import UnsupportedSpaceError
from lanista.envs.python import in_process
from lanista.envs.python.gymnasium.source import behavior_of
from lanista.envs.python.sources import check_source, make_source
from lanista.envs.utils.installation import install_command
from mlagents_envs.exception import UnityEnvironmentException

GAME = """
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, Text

class Game(gymnasium.Env):
    def __init__(self, size=3, render_mode=None, words=False):
        self.observation_space = Text(3) if words else Box(0, 1, (size,))
        self.action_space = Discrete(2)
        self.size = size
        self.render_mode = render_mode
        if size > 9:
            raise ValueError("too large")
    def reset(self, seed=None, options=None):
        return np.zeros(self.size), {"lives": 2}
    def step(self, action):
        return np.zeros(self.size), 1, False, False, {"lives": 2}

gymnasium.register("my/Game-v2", Game)
"""
OWN = "gymnasium:some_own_gym:my/Game-v2"


@pytest.fixture(autouse=True)
def game(own_module):
    import gymnasium

    own_module("some_own_gym", GAME)
    yield
    gymnasium.registry.pop("my/Game-v2", None)


def shape(env):
    env.reset()
    (spec,) = env.behavior_specs.values()
    (sensor,) = spec.observation_specs
    return len(env.get_steps(next(iter(env.behavior_specs)))[0]), sensor.shape


def test_names():
    assert in_process(" gymnasium:CartPole-v1")
    names = ["CartPole-v1", "ALE/Pong-v5", "ale_py:ALE/Pong-v5", "FrozenLake8x8-v1", "plain"]
    behaviors = ["CartPole-v1", "Pong-v5", "Pong-v5", "FrozenLake8x8-v1", "plain"]
    assert [behavior_of(name) for name in names] == behaviors
    assert list(make_source(OWN).behavior_specs) == ["Game-v2?team=0"]


def test_arguments_are_the_environments_or_ours():
    assert shape(make_source(OWN)) == (1, (3,))
    assert shape(make_source(OWN + "?size=4&stack=2")) == (1, (8,))
    assert shape(make_source(OWN + "?size=4", arguments=["--size", "5", "--areas", "2"])) == (2, (5,))
    assert shape(make_source(OWN + "?areas=2", areas=3)) == (3, (3,))
    env = make_source(OWN + "?max_episode_steps=2&lives=true")
    for _ in range(3):
        env.step()
    assert env.get_steps("Game-v2?team=0")[1].interrupted.tolist() == [True]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gymnasium:CartPol-v1", r"CartPol-v1: .*Did you mean: `CartPole`"),
        ("gymnasium:CartPole-v99", r"version `v99`.* `v1` "),
        ("gymnasium:CartPole", r"Write gymnasium:CartPole-v1\."),
        ("gymnasium:ALE/Pong-v5", r"ale-py.*gymnasium:ale_py:ALE/Pong-v5"),
        ("gymnasium:nowhere:Game-v0", "no module 'nowhere', neither installed nor in "),
        ("gymnasium:", "is not valid; write 'gymnasium:ID'"),
        ("gymnasium:CartPole-v1?=3", "is not valid"),
        ("gymnasium:CartPole-v1?areas=0", "found areas 0; expected a number of at least 1"),
        ("gymnasium:CartPole-v1?areas=true", "found areas True; expected a number of at least 1"),
        ("gymnasium:CartPole-v1?stack=many", "found stack 'many'; expected a number of at least 1"),
        ("gymnasium:CartPole-v1?lives=3", "found lives 3; expected true or false"),
        ("gymnasium:CartPole-v1?height=3", "made with height=3: .*unexpected keyword argument 'height'"),
        (OWN + "?size=10", "made with size=10: too large"),
    ],
)
def test_an_environment_that_cannot_be_made_is_refused_in_one_line(name, message):
    with pytest.raises(UnityEnvironmentException, match=message) as refused:
        check_source(name)
    assert "\n" not in str(refused.value)


def test_spaces_that_cannot_be_used_are_refused_before_the_run():
    with pytest.raises(UnsupportedSpaceError, match="Text"):
        check_source(OWN + "?words=true")
    with pytest.raises(UnsupportedSpaceError, match="Text"):
        check_source(OWN, ["--words"])


def test_only_environments_that_render_can_be_filmed():
    with pytest.raises(UnityEnvironmentException, match="cannot be filmed: 'rgb_array' is not among"):
        make_source(OWN, drawn=True)
    pytest.importorskip("pygame")
    env = make_source("gymnasium:CartPole-v1", drawn=True)
    env.reset()
    frame = env.draw()
    assert frame.shape == (400, 600, 3) and frame.dtype == np.uint8 and frame.std() > 0
    env.close()


def test_without_gymnasium_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(UnityEnvironmentException, match=re.escape(install_command("gymnasium"))):
        check_source("gymnasium:CartPole-v1")
