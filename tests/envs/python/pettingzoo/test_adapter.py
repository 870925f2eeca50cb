"""What parallel PettingZoo environments may not do, and how that is reported."""

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
        answer = whole(actions)
        how(answer)
        return answer

    game.step = step


BROKEN_STEPS = {
    "a vanished agent": (lambda answer: [part.clear() for part in answer], r"'walker_0'.*vanished"),
    "no reward": (lambda answer: answer[1].pop("walker_1"), r"'walker_1'.*no reward"),
    "a shape": (
        lambda answer: answer[0].update(walker_0=np.zeros(3)),
        r"'walker_0'.*has the shape \(3,\); expected \(2,\)",
    ),
    "a reward": (
        lambda answer: answer[1].update(walker_0="much"),
        r"'walker_0'.*the reward is 'much' \(str\); expected a number",
    ),
    "a termination": (
        lambda answer: answer[2].update(walker_0=None),
        "'walker_0'.*the termination is None",
    ),
    "a truncation": (lambda answer: answer[3].update(walker_0="no"), "'walker_0'.*the truncation is 'no'"),
    "a newcomer": (lambda answer: answer[0].pop("walker_2"), r"'walker_2'.*without an observation"),
}


@pytest.mark.parametrize("case", BROKEN_STEPS)
def test_an_invalid_answer_names_the_agent_and_what_was_expected(case):
    how, message = BROKEN_STEPS[case]
    env, (game,) = environment((("walker_2",), (), ()), first=("walker_0", "walker_1"))
    change(game, how)
    with pytest.raises(EnvContractError, match=message):
        env.step()


def test_an_error_that_a_restart_would_not_fix_ends_the_run():
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


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        (({}, [1.0], {}, {}, {}), r"returned as rewards \[1\.0\] \(list\); expected a dict"),
        (({}, {}, {}, {}), "returned 4 values; expected 5: observations, rewards"),
    ],
)
def test_answers_are_dicts_by_agent(gives, message):
    env, (game,) = environment(NOTHING)
    game.step = lambda actions: gives
    with pytest.raises(EnvContractError, match=message):
        env.step()
