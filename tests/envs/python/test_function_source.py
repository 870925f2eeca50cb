"""Environments that a user's function makes: all kinds of them, by names and arguments."""

import subprocess
import sys

import pytest

pytest.importorskip("pettingzoo")
pytest.importorskip("gymnasium")

from lanista.envs.errors import EnvContractError, UnsupportedSpaceError
from lanista.envs.python import in_process
from lanista.envs.python.calls import seed_of_copy
from lanista.envs.python.checked import CheckedEnvironment
from lanista.envs.python.gymnasium.environment import GymnasiumEnvironment
from lanista.envs.python.pettingzoo.environment import PettingZooEnvironment
from lanista.envs.python.pettingzoo.turn_based import TurnBasedEnvironment
from lanista.envs.python.sources import check_source, make_source
from mlagents_envs.exception import UnityEnvironmentException

GAMES = """
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, Text

class Walk(gymnasium.Env):
    metadata = {"render_modes": ["rgb_array"]}
    def __init__(self, size=3, seed=None, render_mode=None, space=None):
        self.observation_space = space or Box(-np.inf, np.inf, (size,))
        self.action_space = Discrete(2)
        self.size, self.given, self.render_mode, self.resets = size, seed, render_mode, []
    def reset(self, *, seed=None, options=None):
        self.resets.append(seed)
        return np.zeros(self.size), {}
    def step(self, action):
        return np.zeros(self.size), 1.0, False, False, {}
    def render(self):
        return np.zeros((2, 3, 3), np.uint8)

class Pair:
    agents = possible_agents = ["player_0", "player_1"]
    def reset(self, seed=None):
        return {agent: np.zeros(1) for agent in self.agents}, {}
    def step(self, actions):
        no = dict.fromkeys(self.agents, False)
        return self.reset()[0], dict.fromkeys(self.agents, 0), no, no, {}
    def observation_space(self, agent):
        return Box(0, 1, (1,))
    def action_space(self, agent):
        return Discrete(2)
    def close(self):
        pass

def walk(size=3, seed=None, render_mode=None):
    return Walk(size, seed, render_mode)

def seedless(size):
    return Walk(size)

def pole():
    return gymnasium.make("CartPole-v1")

def pair():
    return Pair()

def turns():
    from pettingzoo.classic import tictactoe_v3
    return tictactoe_v3.env()

def scene(areas=2, seed=0):
    from lanista.envs.scenes.in_process import make_in_process
    return make_in_process(f"scene:basic?areas={areas}", seed)

def foreign(seed=None):
    from foreign_env import Foreign
    return Foreign(seed)

def anything(**options):
    return Walk(**options)

def words():
    return Walk(space=Text(3))

def misshapen():
    return Walk(3, space=Box(0, 1, (4,)))

def number():
    return 3

def nothing():
    pass

def failing():
    raise RuntimeError("no\\nlicence")

def vector():
    return gymnasium.make_vec("CartPole-v1", num_envs=2)

def a_class():
    return Walk

def half():
    class Half:
        def reset(self): pass
        def step(self): pass
    return Half()

limit = 3
"""


@pytest.fixture(autouse=True)
def games(own_module):
    own_module("own_games", GAMES)
    own_module("broken_games", "x = 1\nimport not_there_at_all\n")
    own_module("unwritten_games", "def make(:\n")


def made(function, **options):
    env = make_source(f"python:own_games:{function}", **options)
    env.reset()
    return env


def agents(env):
    return {name: len(env.get_steps(name)[0]) for name in env.behavior_specs}


@pytest.mark.parametrize("name", ["python:mygame:make", " python:x", "pettingzoo:some.module"])
def test_names(name):
    assert in_process(name) and not in_process("scene:ball3d") and not in_process(None)


def test_settings_know_the_names_without_loading_numpy_or_mlagents_envs():
    code = """
import sys
from lanista.trainers.settings import RunOptions
assert RunOptions.from_dict({"env_settings": {"env_path": "python:mygame:make", "env_workers": 2}})
assert not {"numpy", "mlagents_envs"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("function", "kind", "behaviors"),
    [
        ("walk", GymnasiumEnvironment, {"Walk?team=0": 1}),
        ("Walk", GymnasiumEnvironment, {"Walk?team=0": 1}),
        ("pole", GymnasiumEnvironment, {"CartPole-v1?team=0": 1}),
        ("pair", PettingZooEnvironment, {"player?team=0": 2}),
        ("turns", TurnBasedEnvironment, {"player_1?team=0": 1, "player_2?team=1": 0}),
        ("foreign", CheckedEnvironment, {"Counter?team=0": 2}),
    ],
)
def test_every_kind_of_environment_is_accepted(function, kind, behaviors):
    env = made(function)
    assert isinstance(env, kind)
    assert agents(env) == behaviors
    env.step()
    env.close()


def test_an_environment_of_lanista_is_not_wrapped():
    assert type(made("scene")).__name__ == "WorldEnvironment"


@pytest.mark.parametrize(
    ("function", "behavior", "per_copy"), [("walk", "Walk?team=0", 1), ("pair", "player?team=0", 2)]
)
def test_copies(function, behavior, per_copy):
    assert agents(made(function, areas=3)) == {behavior: 3 * per_copy}
    assert agents(made(function, arguments=["--areas", "2"])) == {behavior: 2 * per_copy}
    assert agents(made(f"{function}?areas=4", areas=3)) == {behavior: 3 * per_copy}, "--num-areas wins"


def test_a_base_env_is_one_copy_unless_its_function_makes_areas():
    assert agents(made("scene", areas=5)) == {"Basic?team=0": 5}
    assert agents(made("scene?areas=3")) == {"Basic?team=0": 3}
    with pytest.raises(UnityEnvironmentException, match=r"found 2 areas .*returns a BaseEnv"):
        made("foreign", areas=2)


def test_each_copy_has_a_seed_of_its_own_for_the_function_and_the_first_reset():
    env = made("walk", seed=5, areas=2)
    seeds = [seed_of_copy(5, copy) for copy in range(2)]
    assert [(copy.given, copy.resets) for copy in env._envs] == [(seed, [seed]) for seed in seeds]
    assert [copy.given for copy in made("walk?seed=9", seed=5, areas=2)._envs] == [9, 9]
    assert made("seedless?size=2", seed=5)._envs[0].resets == [5]
    assert made("foreign", seed=5).env.seed == 5


def test_arguments_are_the_functions_or_ours():
    env = made("walk?size=2", arguments=["--size", "4", "--stack", "3"])
    assert env.behavior_specs["Walk?team=0"].observation_specs[0].shape == (12,)
    assert made("anything?size=2&stack=2")._envs[0].size == 2


def test_only_environments_that_render_can_be_filmed():
    assert made("walk", drawn=True).draw().shape == (2, 3, 3)
    with pytest.raises(UnityEnvironmentException, match="cannot be filmed: its render_mode is None"):
        made("seedless?size=2", drawn=True)
    with pytest.raises(UnityEnvironmentException, match=r"cannot be filmed: it has no method draw"):
        made("foreign", drawn=True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("python:", "is not valid; write 'python:MODULE:FUNCTION'"),
        ("python:own_games.py:walk", "is not valid"),
        ("python:folder/own_games:walk", "is not valid"),
        ("python:own_games:walk?=3", "is not valid"),
        ("python:own_games", r"which function\? Write python:own_games:FUNCTION\. It has Walk, Pair, walk"),
        ("python:own_games:wolk", r"no function 'wolk'\. Did you mean walk"),
        ("python:own_games:limit", "'limit' of the module own_games is of type int, not a function"),
        ("python:own_game:walk", r"no module 'own_game', neither installed nor in .*Did you mean own_games"),
        ("python:lanista.env:walk", r"no module 'lanista\.env', .*Did you mean envs"),
        ("python:broken_games:make", "broken_games needs the package 'not_there_at_all'"),
        ("python:unwritten_games:make", r"SyntaxError: .* \(unwritten_games\.py, line 1\)"),
        ("python:own_games:failing", r"failing raised RuntimeError: no licence \(own_games\.py, line \d+\)"),
        ("python:own_games:walk?sice=3", r"takes no argument 'sice'\. Did you mean size\? Its arguments:"),
        ("python:own_games:seedless", "cannot be called with no arguments: missing .*'size'"),
        ("python:own_games:number", "returned 3 of the type int"),
        ("python:own_games:nothing", r"returned nothing \(None\)"),
        ("python:own_games:a_class", "returned the class Walk instead of an instance"),
        ("python:own_games:vector", r"many environments in one .*--num-areas"),
        ("python:own_games:half", "of the type Half, which lacks close, observation_space, action_space"),
        ("python:own_games:walk?self_play=true", "found self_play, .*this is a Gymnasium environment"),
        ("python:own_games:pair?stack=2", "found stack, .*this is a parallel PettingZoo environment"),
        ("python:own_games:walk?stack=0", "found stack 0; expected a number of at least 1"),
        ("python:own_games:walk?lives=2", "found lives 2; expected true or false"),
        ("python:own_games:foreign?stack=2", "found stack, .*this is a BaseEnv"),
    ],
)
def test_an_environment_that_cannot_be_made_is_refused_in_one_line(name, message):
    with pytest.raises(UnityEnvironmentException, match=message) as refused:
        check_source(name)
    assert "\n" not in str(refused.value)


def test_spaces_and_first_observations_are_checked_before_the_run():
    with pytest.raises(UnsupportedSpaceError, match="Text"):
        check_source("python:own_games:words")
    with pytest.raises(EnvContractError, match=r"has the shape \(3,\); expected \(4,\)"):
        check_source("python:own_games:misshapen")
    check_source("python:own_games:walk", ["--size", "2"])


@pytest.mark.parametrize(
    ("kind", "named"),
    [("Walk", "<Stuck instance>"), ("Pair", "<own_stuck.Stuck>"), ("Foreign", "python:own_stuck:Stuck")],
)
def test_a_game_that_cannot_be_closed_is_named_and_not_its_address(own_module, caplog, kind, named):
    own_module(
        "own_stuck",
        "from own_games import Pair, Walk\n"
        "from foreign_env import Foreign\n"
        f"class Stuck({kind}):\n"
        "    def close(self):\n"
        "        raise OSError('the window is stuck')\n",
    )
    check_source("python:own_stuck:Stuck", ())
    assert f"close of {named} raised OSError: the window is stuck (own_stuck.py, line 5)" in caplog.text
    with pytest.raises(EnvContractError, match=f"close of {named} raised OSError"):
        make_source("python:own_stuck:Stuck").close()


def test_all_copies_are_closed_if_one_of_them_cannot_be(own_module):
    own_module(
        "own_closing",
        "from own_games import Walk\n"
        "closed = []\n"
        "class Closing(Walk):\n"
        "    def close(self):\n"
        "        closed.append(self)\n"
        "        raise SystemExit(len(closed))\n",
    )
    with pytest.raises(EnvContractError, match="close of <Closing instance> raised SystemExit"):
        make_source("python:own_closing:Closing", areas=3).close()
    assert len(sys.modules["own_closing"].closed) == 3
