"""What parallel PettingZoo environments may not do, and how that is reported."""

from functools import partial

import pytest

pytest.importorskip("gymnasium")
pytest.importorskip("pettingzoo")

import numpy as np
from gymnasium.spaces import Box
from lanista.envs.errors import EnvContractError
from lanista.envs.manager.manager import EnvManager
from lanista.envs.manager.restarts import RestartLimits
from lanista.envs.python.pettingzoo.environment import PettingZooEnvironment
from scripted_parallel import NOTHING, Script, WithState, environment, zeros


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
    "no end of either kind": (
        lambda answer: [answer[k].pop("walker_1") for k in (2, 3)],
        "'walker_1'.*acted, and is among neither the terminations nor the truncations",
    ),
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


class Staying(Script):
    """Agents stay in `agents` when they end."""

    def step(self, actions):
        self.agents, before = list(actions), list(self.agents)
        answer = super().step(actions)
        self.agents = before
        return answer


@pytest.mark.parametrize("ends", [((), ("walker_0",), ()), ((), (), ("walker_0",))])
def test_an_agent_that_ends_and_stays_among_the_agents_is_refused_while_others_go_on(ends):
    env, _ = environment(ends, kind=Staying, first=("walker_0", "walker_1"))
    with pytest.raises(EnvContractError, match=r"'walker_0' of .* still among its agents.*Remove it from"):
        env.step()
    env, (game,) = environment(ends, NOTHING, kind=Staying)
    env.step()  # the last one may stay: what is wrong with it ends with the episode
    assert game.episodes == 2


def test_agents_are_a_list_of_at_least_one():
    env, (game,) = environment(NOTHING, NOTHING)
    step, reset = game.step, game.reset

    def without(call, agents, *arguments, **keywords):
        answer = call(*arguments, **keywords)
        game.agents = agents
        return answer

    game.step = partial(without, step, None)
    with pytest.raises(EnvContractError, match=r"agents of .* are None \(NoneType\); expected a list"):
        env.step()
    game.reset = partial(without, reset, [])
    with pytest.raises(EnvContractError, match="started an episode without an agent: `agents` is empty"):
        env.reset()


def test_a_global_state_keeps_its_size():
    """A single number would be taken for all values."""

    class Shrinking(WithState):
        def state(self):
            return np.ones(2 if self.time < 1 else 1)

    env, _ = environment(NOTHING, kind=Shrinking, state_observation=True)
    with pytest.raises(EnvContractError, match=r"state of .* returned 1 values; expected 2, as before"):
        env.step()


def test_actions_without_bounds_are_named_once(caplog):
    spaces = {f"walker_{k}": (Box(0, 1, (2,)), Box(-np.inf, np.inf, (k + 1,))) for k in range(2)}
    for _ in range(2):
        environment(NOTHING, first=tuple(spaces), spaces=spaces, kind=type("Boundless", (Script,), {}))
    assert caplog.text.count("Boundless>: values of action lack a bound") == 1
