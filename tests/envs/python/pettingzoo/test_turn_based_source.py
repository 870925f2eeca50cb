"""Turn-based environments by their names, PettingZoo's own among them."""

import numpy as np
import pytest
from lanista.envs.errors import UnsupportedSpaceError
from lanista.envs.python.pettingzoo.environment import PettingZooEnvironment
from lanista.envs.python.pettingzoo.turn_based import TurnBasedEnvironment
from lanista.envs.python.sources import check_source, make_source
from mlagents_envs.base_env import ActionTuple
from mlagents_envs.exception import UnityEnvironmentException

MODULE = """
from gymnasium.spaces import Box, Discrete
from scripted_turns import Move, ScriptedGame
import numpy as np

GAME = [[Move([0, 0], {}, 1), Move([1, -1], {}, 0)]]


def env(rounds=1, **options):
    assert not options, options
    return ScriptedGame(GAME * rounds, 2)


def with_stack_of_its_own(stack_size=7):
    game = ScriptedGame(GAME, 2)
    game.stack_size = stack_size
    return game
"""


@pytest.fixture
def module(own_module):
    pytest.importorskip("pettingzoo")
    own_module("turn_game", MODULE)
    return "pettingzoo:turn_game"


def test_the_function_env_makes_a_turn_based_environment(module):
    check_source(module)
    env = make_source(f"{module}?rounds=3", seed=1, areas=2)
    assert isinstance(env, TurnBasedEnvironment)
    assert list(env.behavior_specs) == ["player_0?team=0", "player_1?team=1"]


def test_its_arguments_come_from_the_name_and_the_command_line(module):
    arguments = ["--self-play", "--stack-size", "3", "--max-steps-per-episode", "5"]
    env = make_source(f"{module}?areas=2&rounds=2", seed=1, arguments=arguments)
    assert list(env.behavior_specs) == ["player?team=0", "player?team=1"]
    assert env.behavior_specs["player?team=0"].observation_specs[0].shape == (6,)
    with pytest.raises(UnsupportedSpaceError, match="boards is for"):
        make_source(f"{module}?boards=true")
    assert len(make_source(module, arguments=["--self-play", "false"], self_play=True).seats) == 2
    assert list(make_source(module, self_play=None).behavior_specs) == list(env.behavior_specs)
    own = make_source(f"{module}:with_stack_of_its_own?stack_size=2")
    assert own._areas[0].loop.game.stack_size == 2
    with pytest.raises(UnityEnvironmentException, match="found stack_size 'many'; expected a number"):
        make_source(f"{module}?stack_size=many")


def test_environments_whose_agents_act_together_take_no_such_arguments():
    pytest.importorskip("mpe2")
    with pytest.raises(UnityEnvironmentException, match="found stack_size, which are for"):
        make_source("pettingzoo:mpe2.simple_spread_v3?stack_size=2")
    assert isinstance(make_source("pettingzoo:mpe2.simple_spread_v3"), PettingZooEnvironment)


@pytest.mark.parametrize("name", ["connect_four_v3", "tictactoe_v3"])
def test_pettingzoos_own_games_are_played_by_their_masks(name):
    pytest.importorskip("pettingzoo")
    pytest.importorskip("pygame", reason="pettingzoo's classic games need pygame")
    env = make_source(f"pettingzoo:pettingzoo.classic.{name}", seed=1, areas=2, self_play=True)
    env.reset()
    rng = np.random.default_rng(3)
    ends = []
    for _ in range(150):
        for behavior in env.behavior_specs:
            decisions, terminals = env.get_steps(behavior)
            ends += terminals.reward.tolist()
            allowed = [np.flatnonzero(~row) for row in decisions.action_mask[0]] if len(decisions) else []
            chosen = np.array([rng.choice(row) for row in allowed], np.int32).reshape(-1, 1)
            env.set_actions(behavior, ActionTuple(discrete=chosen))
        env.step()
    # An illegal move would end a game with a reward for nobody but the one who made it.
    assert len(ends) > 10 and sum(ends) == 0 and {1.0, -1.0} <= set(ends) <= {1.0, 0.0, -1.0}
