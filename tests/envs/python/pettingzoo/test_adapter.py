"""What parallel environments of PettingZoo may not do, and how they are told."""

import pytest

pytest.importorskip("gymnasium")
pytest.importorskip("pettingzoo")

import numpy as np
from lanista.envs.errors import EnvContractError
from lanista.envs.manager.manager import EnvManager
from lanista.envs.manager.restarts import RestartLimits
from lanista.envs.python.pettingzoo.environment import PettingZooEnvironment
from scripted_parallel import NOTHING, Script, environment, zeros


def change(game, how):
    """Let a game's answers be changed before they are given."""
    whole = game.step

    def step(actions):
        told = whole(actions)
        how(told)
        return told

    game.step = step


def test_a_vanished_agent_is_an_error():
    env, (game,) = environment(NOTHING)
    game.step = lambda actions: ({}, {}, {}, {}, {})
    with pytest.raises(EnvContractError, match=r"'walker_0'.*vanished"):
        env.step()


def test_what_a_restart_would_not_mend_is_not_restarted():
    def make(_):
        game = Script(NOTHING, NOTHING)
        whole = game.step
        game.step = lambda actions: whole(actions) if game.time == 0 else ({}, {}, {}, {}, {})
        return PettingZooEnvironment(lambda: game)

    with EnvManager(make, 1, limits=RestartLimits(-1, -1, 60)) as manager:
        manager.start()
        (step,) = manager.reset()
        with pytest.raises(EnvContractError, match="vanished"):
            for _ in range(2):
                manager.send(0, {name: zeros(manager, name, step.steps[name][0]) for name in step.steps})
                (step,) = manager.wait()


def test_a_living_agent_without_a_reward_is_an_error():
    env, (game,) = environment(NOTHING, first=("walker_0", "walker_1"))
    change(game, lambda told: told[1].pop("walker_1"))
    with pytest.raises(EnvContractError, match=r"'walker_1'.*no reward"):
        env.step()


def test_an_observation_that_is_not_of_its_space_is_an_error():
    env, (game,) = environment(NOTHING)
    game.see = lambda agent: np.zeros(3)
    with pytest.raises(EnvContractError, match=r"'walker_0'.*has the shape \(3,\); expected \(2,\)"):
        env.step()


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        (1, "much", r"'walker_0'.*the reward is 'much' \(str\); expected a number"),
        (2, None, "'walker_0'.*the termination is None"),
        (3, "no", "'walker_0'.*the truncation is 'no'"),
    ],
)
def test_what_an_agent_gets_is_to_be_a_number_or_a_flag(part, value, message):
    env, (game,) = environment(NOTHING)
    change(game, lambda told: told[part].update(walker_0=value))
    with pytest.raises(EnvContractError, match=message):
        env.step()


def test_answers_are_dicts_of_agents():
    env, (game,) = environment(NOTHING)
    for gives, message in [
        (({}, [1.0], {}, {}, {}), r"returned as rewards \[1\.0\] \(list\); expected a dict"),
        (({}, {}, {}, {}), "returned 4 values; expected 5: observations, rewards"),
    ]:
        game.step = lambda actions, gives=gives: gives
        with pytest.raises(EnvContractError, match=message):
            env.step()


def test_a_newcomer_without_an_observation_is_an_error():
    env, (game,) = environment((("walker_1",), (), ()))
    change(game, lambda told: told[0].pop("walker_1"))
    with pytest.raises(EnvContractError, match=r"'walker_1'.*without an observation"):
        env.step()
