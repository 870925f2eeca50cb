"""An engine's agents as PettingZoo agents."""

import numpy as np
import pytest

pytest.importorskip("gymnasium")
pytest.importorskip("pettingzoo")

from gymnasium.spaces import Box, Discrete, MultiDiscrete, Tuple
from lanista.envs.wrappers import UnityAECEnv, UnityGymException, UnityParallelEnv, UnityToPettingZooWrapper
from scripted_env import BALL, NAME, Asks, Ends, ScriptedEnv, spec_of

A, B = f"{NAME}?agent_id=0", f"{NAME}?agent_id=1"
STILL = np.zeros(2, np.float32)


def wrap(*script, kind=UnityParallelEnv, spec=BALL, specs=None, **options):
    engine = ScriptedEnv(list(script), specs or {NAME: spec})
    return kind(engine, **options), engine


def act(env, action=STILL):
    return env.step(dict.fromkeys(env.agents, action))


def test_names_are_behavior_and_slot():
    env, engine = wrap([Asks(12, 1), Asks(7, 2)], [Asks(7, 3, 0.5), Asks(12, 4, 0.25)])
    assert env.possible_agents == [A, B] and env.agents == []
    seen, infos = env.reset()
    assert env.agents == [A, B] and [seen[A].item(), seen[B].item()] == [2, 1]
    assert infos[A] == {
        "behavior_name": NAME, "agent_id": 7, "group_id": 0, "group_reward": 0.0, "asks": True
    }  # fmt: skip
    seen, rewards, *_ = env.step({A: np.float32([1, 0.5]), B: np.float32([0, -1])})
    assert engine.acted == [{12: ([0, -1], []), 7: ([1, 0.5], [])}], "every value of an action, unchanged"
    assert rewards == {A: 0.5, B: 0.25}
    assert UnityToPettingZooWrapper is UnityParallelEnv


def test_an_agent_that_has_ended_is_absent_until_the_next_reset():
    env, engine = wrap(
        [Asks(0), Asks(1)],
        [Ends(1, 5, -1), Asks(0, 2), Asks(9, 7)],
        [Asks(0, 3), Asks(9, 8, 100)],
        [Ends(0, 4, interrupted=True), Asks(9)],
    )
    env.reset()
    seen, rewards, terminated, truncated, infos = act(env)
    assert env.agents == [A]
    assert seen[B].item() == 5 and rewards[B] == -1
    assert terminated == {A: False, B: True} and truncated == {A: False, B: False}
    assert infos[B]["agent_id"] == 1 and infos[B]["interrupted"] is False and not infos[B]["asks"]
    seen, rewards, *_ = act(env, np.ones(2, np.float32))
    assert set(seen) == set(rewards) == {A}
    assert engine.acted[1] == {0: ([1, 1], []), 9: ([0, 0], [])}, "its successor gets zero actions"
    _, _, terminated, truncated, infos = act(env)
    assert env.agents == [] and truncated == {A: True} and infos[A]["interrupted"]
    with pytest.raises(UnityGymException, match=r"no agent is alive. Call reset\(\)"):
        env.step({})
    env.reset()
    assert env.agents == [A, B] and env.possible_agents == [A, B]


def test_an_agent_without_a_decision_keeps_its_observation_and_needs_no_action():
    env, engine = wrap([Asks(0, 1), Asks(1, 1)], [Asks(0, 2)], [Asks(0, 3, 1), Asks(1, 5, 7)])
    env.reset()
    seen, rewards, *_, infos = act(env)
    assert seen[B].item() == 1 and rewards[B] == 0 and not infos[B]["asks"]
    _, rewards, *_ = env.step({A: STILL})
    assert rewards == {A: 1, B: 7}
    assert set(engine.acted[1]) == {0}
    with pytest.raises(UnityGymException, match=rf"missing: {B}".replace("?", r"\?")):
        env.step({A: STILL})


def test_the_engine_is_stepped_while_only_successors_request_decisions():
    env, engine = wrap(
        [Asks(0), Asks(1)], [Ends(0), Asks(2), Asks(1)], [Asks(2)], [Asks(2)], [Asks(2), Asks(1, 0, 3)]
    )
    env.reset()
    act(env)
    _, rewards, *_ = act(env)
    assert rewards == {B: 3} and len(engine.acted) == 4


def test_agents_that_appear_later_join_and_become_possible_agents():
    env, _ = wrap([Asks(0)], [Asks(0), Asks(1, 5, 9)], [Asks(0), Asks(1)])
    assert env.possible_agents == [A]
    env.reset()
    seen, rewards, *_ = act(env)
    assert env.agents == env.possible_agents == [A, B]
    assert seen[B].item() == 5 and rewards[B] == 0
    act(env)
    seen, _ = env.reset()
    assert env.agents == [A] and set(seen) == {A} and env.possible_agents == [A, B]


def test_an_agent_that_changes_its_behavior_is_another_agent():
    small, big = "Small?team=0", "Big?team=0"
    env, _ = wrap(
        {small: [Asks(0)]},
        {small: [Ends(0)], big: [Asks(0)]},
        {big: [Ends(0)], small: [Asks(0)]},
        specs={small: BALL, big: BALL},
    )
    env.reset()
    _, _, terminated, *_ = act(env)
    assert terminated == {f"{small}?agent_id=0": True, f"{big}?agent_id=0": False}
    assert env.agents == [f"{big}?agent_id=0"]
    act(env)
    assert env.agents == []


def test_observation_spaces_are_float_and_contain_the_observations():
    spec = spec_of((2,), (3, 4, 5), continuous=2)
    env, _ = wrap([Asks(0, 2)], spec=spec)
    assert env.action_space(A) == Box(-1, 1, (2,), np.float32)
    seen, _ = env.reset()
    assert set(seen[A]) == {"sensor(2,)", "sensor(3, 4, 5)"} and seen[A] in env.observation_space(A)
    assert env.observation_spaces[A] is env.observation_space(A)
    assert env.action_spaces[A] is env.action_space(A)


@pytest.mark.parametrize(
    ("branches", "allowed", "space"),
    [((3,), ((0, 2),), Discrete(3)), ((3, 2), ((1,), (0,)), MultiDiscrete([3, 2]))],
)
def test_masks_are_in_the_observation_and_in_its_space(branches, allowed, space):
    env, engine = wrap(
        [Asks(0, allowed=allowed)], [Ends(0), Asks(1, allowed=allowed)], spec=spec_of((1,), branches=branches)
    )
    assert env.action_space(A) == space
    seen, infos = env.reset()
    assert seen[A] in env.observation_space(A) and "action_mask" not in infos[A]
    action = env.action_space(A).sample(seen[A]["action_mask"])
    assert all(chosen in those for chosen, those in zip(np.ravel(action), allowed))
    seen, *_ = env.step({A: action})
    assert engine.acted[0][0][1] == np.ravel(action).tolist()
    assert seen[A] in env.observation_space(A)
    assert np.concatenate([np.ravel(mask) for mask in seen[A]["action_mask"]]).all()


def test_with_continuous_actions_the_mask_is_in_the_info():
    env, engine = wrap([Asks(0, allowed=((1,),))], spec=spec_of((1,), continuous=2, branches=(3,)))
    assert env.action_space(A) == Tuple([Box(-1, 1, (2,), np.float32), Discrete(3)])
    seen, infos = env.reset()
    assert seen[A] in env.observation_space(A)
    assert env.action_space(A).sample(infos[A]["action_mask"])[1] == 1
    env.step({A: (np.float32([0.5, 0.25]), 2)})
    assert engine.acted == [{0: ([0.5, 0.25], [2])}]


def test_group_rewards_are_in_the_infos_or_added():
    script = [Asks(0, group=3)], [Ends(0, 0, 1, group=3, group_reward=2)]
    env, _ = wrap(*script)
    env.reset()
    _, rewards, _, _, infos = act(env)
    assert rewards == {A: 1} and infos[A]["group_reward"] == 2 and infos[A]["group_id"] == 3
    env, _ = wrap(*script, add_group_reward=True)
    env.reset()
    assert act(env)[1] == {A: 3}


def test_a_seed_makes_samples_repeatable():
    made = [wrap([Asks(0), Asks(1)], seed=4)[0] for _ in range(2)]
    drawn = [[env.action_space(agent).sample().tolist() for agent in (A, B)] for env in made]
    assert drawn[0] == drawn[1] and drawn[0][0] != drawn[0][1]


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ({A: np.zeros(3)}, rf"Invalid action of the agent '{A}'.*expected the shape \(2,\), found \(3,\)"),
        ({A: STILL, "Bal?team=0?agent_id=0": STILL}, rf"no agent 'Bal\?.*did you mean '{A}'"),
        ({}, rf"missing: {A}"),
    ],
)
def test_invalid_actions_are_errors(actions, message):
    env, _ = wrap([Asks(0)])
    env.reset()
    with pytest.raises(UnityGymException, match=message.replace("Ball?", r"Ball\?").replace("0?", r"0\?")):
        env.step(actions)


@pytest.mark.parametrize("kind", [UnityParallelEnv, UnityAECEnv])
def test_a_closed_environment_is_an_error(kind):
    env, engine = wrap([Asks(0)], kind=kind)
    env.reset()
    env.close()
    env.close()
    assert engine.closed
    with pytest.raises(UnityGymException, match="No environment loaded"):
        env.step({A: STILL})
    with pytest.raises(UnityGymException, match="No environment loaded"):
        env.reset()


def test_in_turns_only_agents_with_a_decision_act():
    env, engine = wrap([Asks(0), Asks(1)], [Asks(0, 1, 1)], [Asks(0, 2, 1), Asks(1, 3, 5)], kind=UnityAECEnv)
    env.reset()
    turns = []
    for _ in range(5):
        turns.append((env.agent_selection[-1], env.last()[0].item(), env.last()[1]))
        env.step(STILL)
    assert turns == [("0", 0, 0), ("1", 0, 0), ("0", 1, 1), ("0", 2, 1), ("1", 3, 5)]
    assert [set(acted) for acted in engine.acted] == [{0, 1}, {0}, {0, 1}]


def test_in_turns_ended_agents_step_first_and_are_removed():
    env, _ = wrap(
        [Asks(0), Asks(1)], [Asks(0, 1), Ends(1, 9, -1), Asks(2)], [Ends(0, 8, 2), Asks(2)], kind=UnityAECEnv
    )
    env.reset()
    answers = []
    for agent in env.agent_iter():
        seen, reward, terminated, truncated, _ = env.last()
        answers.append((agent[-1], seen.item(), reward, terminated))
        env.step(None if terminated or truncated else STILL)
    assert answers == [
        ("0", 0, 0, False), ("1", 0, 0, False), ("1", 9, -1, True), ("0", 1, 0, False), ("0", 8, 2, True)
    ]  # fmt: skip
    assert env.agents == []
    with pytest.raises(UnityGymException, match="no agent is alive"):
        env.step(None)


def test_in_turns_the_engine_is_stepped_when_no_other_agent_requests_a_decision():
    env, engine = wrap([Asks(0), Asks(1)], [Ends(0)], [], [Asks(1, 4, 3)], kind=UnityAECEnv)
    env.reset()
    env.step(STILL)
    env.step(STILL)
    assert env.agent_selection == A
    env.step(None)
    assert env.agent_selection == B and env.last()[:2] == (4, 3) and len(engine.acted) == 3
