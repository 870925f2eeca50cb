"""Environments of this process, by their names and arguments."""

import sys

import pytest

pytest.importorskip("pettingzoo")

from lanista.envs.python.sources import check_source, make_source
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
def game(tmp_path, monkeypatch):
    """A module of the folder in which one works."""
    (tmp_path / "some_own_game.py").write_text(GAME)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "pettingzoo:some_own_game"
    sys.modules.pop("some_own_game", None)


def options(env):
    return env._areas[0].env.options


def test_arguments_have_the_kinds_of_what_is_written(game):
    arguments = ["--size", "-4", "--name=some thing", "--fast", "--goals", "[1, 2]"]
    env = make_source(game + "?size=9&rate=2.5", arguments=arguments)
    assert options(env) == {"size": -4, "name": "some thing", "fast": True, "rate": 2.5, "goals": [1, 2]}
    assert options(make_source(game, arguments=["--fast", "false", "--name", "none"])) == {
        "size": 3, "name": None, "fast": False, "rate": 0.5, "goals": (),
    }  # fmt: skip


def test_hyphens_are_those_of_the_key_alone(tmp_path, monkeypatch):
    (tmp_path / "game_of_words.py").write_text(
        GAME.replace("size=3,", "low=0, map_name='', size=3,").replace(
            "size=size,", "low=low, map_name=map_name, size=size,"
        )
    )
    monkeypatch.syspath_prepend(tmp_path)
    env = make_source(
        "pettingzoo:game_of_words", arguments=["--low=-1", "--map-name=simple-map", "--name", "a-b"]
    )
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


def test_arguments_that_are_not_the_functions(game):
    with pytest.raises(UnityEnvironmentException, match=r"with sise=4: .*unexpected keyword argument 'sise'"):
        make_source(game + "?sise=4")
    with pytest.raises(UnityEnvironmentException, match="found the argument '4'; expected --key value"):
        make_source(game, arguments=["4"])
    with pytest.raises(UnityEnvironmentException, match="found the argument '--'; expected --key value"):
        make_source(game, arguments=["--"])


def test_modules_that_are_not_there(tmp_path, monkeypatch):
    with pytest.raises(UnityEnvironmentException, match=r"no module 'some_game_of_nobody'.*mpe2"):
        check_source("pettingzoo:some_game_of_nobody.simple_v1")
    with pytest.raises(UnityEnvironmentException, match=r"'pettingzoo.butterfly' has no .*pistonball_v"):
        check_source("pettingzoo:pettingzoo.butterfly.pistonbal_v1")
    (tmp_path / "game_with_needs.py").write_text("import some_package_of_nobody")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnityEnvironmentException, match="needs the package 'some_package_of_nobody'"):
        check_source("pettingzoo:game_with_needs")


@pytest.mark.parametrize("name", ["", ":function", ".relative", "..relative:function", "a..b"])
def test_names_without_a_module_cannot_be_read(name):
    with pytest.raises(UnityEnvironmentException, match=r"is not valid.*pettingzoo:MODULE:FUNCTION"):
        check_source(f"pettingzoo:{name}")


def test_without_pettingzoo_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    with pytest.raises(UnityEnvironmentException, match=r"pip install 'lanista\[pettingzoo\]'"):
        check_source("pettingzoo:mpe2.simple_spread_v3")
