"""Environments in this process, by their names and arguments."""

import re
import sys

import pytest

pytest.importorskip("pettingzoo")

from lanista.envs.python.sources import check_source, make_source
from lanista.envs.utils.installation import install_command
from mlagents_envs.exception import UnityEnvironmentException

GAME = """
import numpy as np
from gymnasium.spaces import Box, Discrete

class Game:
    agents = possible_agents = ["player_0"]
    def __init__(self, **options):
        self.options = options
    def reset(self, seed=None):
        return {"player_0": np.zeros(1)}, {}
    def step(self, actions):
        no = {"player_0": False}
        return {"player_0": np.zeros(1)}, {"player_0": 0}, no, no, {}
    def observation_space(self, agent):
        return Box(0, 1, (1,))
    def action_space(self, agent):
        return Discrete(2)
    def close(self):
        pass

def parallel_env(size=3, name="x", fast=False, rate=0.5, goals=()):
    return Game(size=size, name=name, fast=fast, rate=rate, goals=goals)

def other():
    return Game()
"""


@pytest.fixture
def game(own_module):
    own_module("some_own_game", GAME)
    return "pettingzoo:some_own_game"


def options(env):
    return env._areas[0].env.options


def test_arguments_are_parsed_to_their_types(game):
    arguments = ["--size", "-4", "--name=some thing", "--fast", "--goals", "[1, 2]"]
    env = make_source(game + "?size=9&rate=2.5", arguments=arguments)
    assert options(env) == {"size": -4, "name": "some thing", "fast": True, "rate": 2.5, "goals": [1, 2]}
    assert options(make_source(game, arguments=["--fast", "false", "--name", "none"])) == {
        "size": 3, "name": None, "fast": False, "rate": 0.5, "goals": (),
    }  # fmt: skip


def test_hyphens_are_replaced_in_keys_alone(own_module):
    text = GAME.replace("size=3,", "low=0, map_name='', size=3,")
    own_module("game_of_words", text.replace("size=size,", "low=low, map_name=map_name, size=size,"))
    arguments = ["--low=-1", "--map-name=simple-map", "--name", "a-b"]
    env = make_source("pettingzoo:game_of_words", arguments=arguments)
    assert [options(env)[key] for key in ("low", "map_name", "name")] == [-1, "simple-map", "a-b"]


def test_areas_and_state_are_for_lanista(game):
    assert len(make_source(game + "?areas=3")._areas) == 3
    assert len(make_source(game, arguments=["--areas", "3"], areas=2)._areas) == 2
    env = make_source(game, arguments=["--state-observation"])
    with pytest.raises(UnityEnvironmentException, match="no global state"):
        env.reset()
    with pytest.raises(UnityEnvironmentException, match="found areas 'many'"):
        make_source(game + "?areas=many")


def test_another_function_can_be_named(game):
    env = make_source(game + ":other")
    env.reset()
    assert list(env.behavior_specs) == ["player?team=0"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (":nothing", "no function 'nothing'.*parallel_env, other"),
        ("?=3", "is not valid"),
        (".", "is not valid"),
        (".other", r"'other' is not a module but a function .* write pettingzoo:some_own_game:other"),
        (".nothing", r"'some_own_game' is a module, not a package.*parallel_env, other"),
    ],
)
def test_refuses_before_anything_is_made(game, name, message):
    with pytest.raises(UnityEnvironmentException, match=message):
        check_source(game + name)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("?sise=4", None, r"with sise=4: .*unexpected keyword argument 'sise'"),
        ("", ["4"], "found the argument '4'; expected --key value"),
        ("", ["--"], "found the argument '--'; expected --key value"),
    ],
)
def test_arguments_that_the_function_does_not_take(game, name, arguments, message):
    with pytest.raises(UnityEnvironmentException, match=message):
        make_source(game + name, arguments=arguments)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("some_game_of_nobody.simple_v1", r"no module 'some_game_of_nobody'.*mpe2"),
        ("pettingzoo.butterfly.pistonbal_v1", r"'pettingzoo.butterfly' has no .*pistonball_v"),
        ("game_with_needs", "needs the package 'some_package_of_nobody'"),
    ],
)
def test_modules_that_cannot_be_imported(own_module, name, message):
    own_module("game_with_needs", "import some_package_of_nobody")
    with pytest.raises(UnityEnvironmentException, match=message):
        check_source(f"pettingzoo:{name}")


@pytest.mark.parametrize("name", ["", ":function", ".relative", "..relative:function", "a..b"])
def test_names_without_a_module_are_not_valid(name):
    with pytest.raises(UnityEnvironmentException, match=r"is not valid.*pettingzoo:MODULE:FUNCTION"):
        check_source(f"pettingzoo:{name}")


def test_without_pettingzoo_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    with pytest.raises(UnityEnvironmentException, match=re.escape(install_command("pettingzoo"))):
        check_source("pettingzoo:mpe2.simple_spread_v3")
