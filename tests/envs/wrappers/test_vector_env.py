"""All agents of a behavior as a vectorized Gymnasium environment."""

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", minversion="1.1")

from gymnasium.spaces import Box, MultiDiscrete, Tuple  # noqa: E402
from gymnasium.vector import AutoresetMode  # noqa: E402
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics  # noqa: E402
from lanista.envs.wrappers import UnityGymException, UnityVectorEnv  # noqa: E402
from scripted_env import BALL, NAME, Asks, Ends, ScriptedEnv, spec_of  # noqa: E402


def wrap(*script, spec=BALL, specs=None, **options):
    env = ScriptedEnv(list(script), specs or {NAME: spec})
    return UnityVectorEnv(env, **options), env


def still(env):
    return np.zeros((env.num_envs, 2), np.float32)


def test_agents_act_in_their_slots_whatever_their_order():
    env, engine = wrap([Asks(4, 4), Asks(2, 2)], [Asks(2, 3, 0.25), Asks(4, 5, 0.75)])
    seen, infos = env.reset()
    assert env.num_envs == 2 and seen in env.observation_space
    assert seen.tolist() == [[2], [4]] and infos["agent_id"].tolist() == [2, 4]
    seen, rewards, *_ = env.step(np.float32([[1, 0], [0, 1]]))
    assert engine.acted == [{4: ([0, 1], []), 2: ([1, 0], [])}]
    assert seen.tolist() == [[3], [5]] and rewards.tolist() == [0.25, 0.75]
    assert rewards.dtype == np.float64


def test_a_successor_starts_in_the_step_that_ends_an_episode():
    env, _ = wrap([Asks(0, 0), Asks(1, 1)], [Ends(1, 5, -1), Asks(0, 2, 0.5), Asks(2, 7, reward=9)])
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    env.reset()
    seen, rewards, terminated, truncated, infos = env.step(still(env))
    assert seen.tolist() == [[2], [7]]
    assert rewards.tolist() == [0.5, -1], "a reward before an agent's first action is not counted"
    assert terminated.tolist() == [False, True] and not truncated.any()
    assert infos["final_obs"][1].tolist() == [5] and infos["final_obs"][0] is None
    assert infos["_final_obs"].tolist() == [False, True]
    assert infos["agent_id"].tolist() == [0, 2]
    assert infos["final_info"]["agent_id"].tolist() == [-1, 1]
    assert infos["asks"].all()


def test_an_interruption_is_a_truncation():
    env, _ = wrap([Asks(0)], [Ends(0, interrupted=True), Asks(0)])
    env.reset()
    _, _, terminated, truncated, _ = env.step(still(env))
    assert truncated.tolist() == [True] and not terminated.any()


def test_agents_that_act_less_often_lose_no_reward():
    env, engine = wrap([Asks(0, 0), Asks(1, 10)], [Asks(0, 1, 1)], [Asks(0, 2, 1), Asks(1, 12, 5)])
    env.reset()
    seen, rewards, *_, infos = env.step(np.ones((2, 2), np.float32))
    assert infos["asks"].tolist() == [True, False]
    assert seen.tolist() == [[1], [10]] and rewards.tolist() == [1, 0]
    seen, rewards, *_, infos = env.step(np.full((2, 2), -1, np.float32))
    assert engine.acted[1] == {0: ([-1, -1], [])}, "no other agent acts"
    assert seen.tolist() == [[2], [12]] and rewards.tolist() == [1, 5] and infos["asks"].all()


def test_a_slot_whose_next_agent_is_late_shows_the_end_until_it_comes():
    env, _ = wrap(
        [Asks(0, 0), Asks(1, 10)], [Asks(0, 1), Ends(1, 19, 3)], [Asks(0, 2)], [Asks(0, 3), Asks(2, 20, 4)]
    )
    env.reset()
    steps = [env.step(still(env)) for _ in range(3)]
    assert [seen[1].item() for seen, *_ in steps] == [19, 19, 20]
    assert [step[1][1] for step in steps] == [3, 0, 0]
    assert [step[2][1] for step in steps] == [True, False, False]
    assert [step[4]["asks"][1] for step in steps] == [False, False, True]
    assert [step[4]["agent_id"][1] for step in steps] == [-1, -1, 2]
    assert steps[0][4]["final_obs"][1].tolist() == [19]


def test_engine_steps_without_decisions_are_part_of_the_step():
    env, engine = wrap([Asks(0)], [Ends(0, 7, 2)], [], [Asks(1, 8)])
    env.reset()
    seen, rewards, terminated, _, infos = env.step(still(env))
    assert (seen.item(), rewards.item(), terminated.item()) == (8, 2, True)
    assert infos["final_obs"][0].tolist() == [7] and len(engine.acted) == 3


def test_a_reset_cuts_all_episodes():
    env, engine = wrap([Asks(0, 1), Asks(1, 2)], [Asks(0, 3), Asks(1, 4)])
    env.reset()
    env.step(still(env))
    engine.script[0] = [Asks(9, 2), Asks(7, 1)]
    seen, infos = env.reset()
    assert seen.tolist() == [[1], [2]] and infos["agent_id"].tolist() == [7, 9]
    with pytest.raises(UnityGymException, match="reset_mask"):
        env.reset(options={"reset_mask": np.array([True, False])})


def test_more_agents_than_slots_are_an_error_with_their_number():
    env, _ = wrap([Asks(0)], [Asks(0), Asks(1)])
    env.reset()
    with pytest.raises(UnityGymException, match=r"has 1 slots, but 2 agents of Ball\?team=0.*num_envs=2"):
        env.step(still(env))
    with pytest.raises(UnityGymException, match="num_envs=2"):
        wrap([Asks(0), Asks(1)], num_envs=1)


def test_slots_can_be_reserved_for_agents_that_appear_later():
    env, engine = wrap([Asks(0, 1)], [Asks(0, 2), Asks(1, 5)], [Asks(0), Asks(1)], num_envs=2)
    seen, infos = env.reset()
    assert seen.tolist() == [[1], [0]] and infos["asks"].tolist() == [True, False]
    seen, *_, infos = env.step(still(env))
    assert seen.tolist() == [[2], [5]] and infos["asks"].all()
    env.step(still(env))
    assert set(engine.acted[1]) == {0, 1}


def test_teams_with_equal_specs_are_concatenated():
    blue, red = "Ball?team=0", "Ball?team=1"
    env, engine = wrap(
        {blue: [Asks(0, 0), Asks(3, 3)], red: [Asks(1, 1)]},
        {blue: [Asks(0, 10), Asks(3, 13)], red: [Ends(1, 11, 1), Asks(2, 12)]},
        specs={blue: BALL, red: BALL},
    )
    assert env.names == [blue, blue, red]
    assert env.reset()[0].tolist() == [[0], [3], [1]]
    seen, _, terminated, _, infos = env.step(np.float32([[0, 0], [1, 1], [-1, -1]]))
    assert engine.acted == [{0: ([0, 0], []), 3: ([1, 1], []), 1: ([-1, -1], [])}]
    assert seen.tolist() == [[10], [13], [12]] and terminated.tolist() == [False, False, True]
    assert infos["final_obs"][2].tolist() == [11] and infos["final_info"]["agent_id"].tolist() == [-1, -1, 1]


def test_teams_that_differ_and_several_behaviors_are_refused():
    script = {NAME: [Asks(0)], "Ball?team=1": [Asks(1)]}
    with pytest.raises(UnityGymException, match=r"Ball\?team=0 and Ball\?team=1 have different observations"):
        wrap(script, specs={NAME: BALL, "Ball?team=1": spec_of((2,), continuous=2)})
    with pytest.raises(UnityGymException, match="only be one behavior"):
        wrap({NAME: [Asks(0)], "Cube?team=0": [Asks(1)]}, specs={NAME: BALL, "Cube?team=0": BALL})


def test_masks_and_group_rewards_are_in_the_infos():
    spec = spec_of((1,), branches=(3, 2))
    first = [Asks(0, group=1, allowed=((0,), (0, 1))), Asks(1, group=1)]
    second = [
        Asks(0, 0, 1, group=1, group_reward=2),
        Ends(1, 0, 1, group=1, group_reward=4),
        Asks(2, group=1),
    ]
    env, _ = wrap(first, second, spec=spec)
    assert env.single_action_space == MultiDiscrete([3, 2])
    _, infos = env.reset()
    assert infos["action_mask"].tolist() == [[1, 0, 0, 1, 1], [1, 1, 1, 1, 1]]
    assert infos["action_mask"].dtype == np.int8 and infos["group_id"].tolist() == [1, 1]
    _, rewards, *_, infos = env.step(np.zeros((2, 2), np.int64))
    assert rewards.tolist() == [1, 1] and infos["group_reward"].tolist() == [2, 4]
    env, _ = wrap(first, second, spec=spec, add_group_reward=True)
    env.reset()
    assert env.step(np.zeros((2, 2), np.int64))[1].tolist() == [3, 5]
    env, _ = wrap(first, second, spec=spec, flatten_branched=True)
    assert env.reset()[1]["action_mask"].tolist() == [[1, 1, 0, 0, 0, 0], [1] * 6]


def test_hybrid_actions_are_batched_as_gymnasium_does():
    env, engine = wrap([Asks(0), Asks(1)], spec=spec_of((1,), continuous=1, branches=(3,)))
    env.reset()
    action = (np.float32([[0.5], [-0.5]]), np.array([2, 1]))
    assert isinstance(env.action_space, Tuple) and action in env.action_space
    env.step(action)
    assert engine.acted == [{0: ([0.5], [2]), 1: ([-0.5], [1])}]


def test_flat_actions_heed_the_masks_of_each_slot():
    spec = spec_of((1,), continuous=1, branches=(3,))
    env, engine = wrap([Asks(0, allowed=((0, 1),)), Asks(1)], spec=spec, flatten_actions=True)
    _, infos = env.reset()
    assert env.action_space == Box(-1, 1, (2, 4), np.float32)
    assert infos["action_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    env.step(np.float32([[0.5, -1, 0, 1], [-0.5, 0, 0, 1]]))
    assert engine.acted == [{0: ([0.5], [1]), 1: ([-0.5], [2])}]


def test_actions_of_another_shape_name_both():
    env, _ = wrap([Asks(0), Asks(1)])
    with pytest.raises(UnityGymException, match=r"Call reset\(\)"):
        env.step(still(env))
    env.reset()
    with pytest.raises(UnityGymException, match=r"expected the shape \(2, 2\), found \(2,\)"):
        env.step(np.zeros(2, np.float32))
    env.close()
    env.close()
    with pytest.raises(UnityGymException, match="it was closed"):
        env.step(still(env))
    with pytest.raises(UnityGymException, match="it was closed"):
        env.reset()


def test_returned_arrays_do_not_change():
    env, _ = wrap([Asks(0, 1), Asks(1, 1)], [Asks(0, 2)], [Ends(0, 3), Asks(5, 4)])
    returned = [env.reset()[0], *(env.step(still(env))[0] for _ in range(2))]
    assert [each.ravel().tolist() for each in returned] == [[1, 1], [2, 1], [4, 1]]


def test_gymnasiums_wrappers_understand_the_infos():
    env, _ = wrap([Asks(0), Asks(1)], [Asks(0, 0, 1), Asks(1, 0, 2)], [Ends(0, 0, 3), Asks(0), Asks(1, 0, 2)])
    counted = RecordEpisodeStatistics(env)
    counted.reset()
    counted.step(still(env))
    *_, infos = counted.step(still(env))
    assert counted.return_queue[0] == 4 and counted.length_queue[0] == 2
    first, second = DictInfoToList(counted)._convert_info_to_list(infos)
    assert first["final_obs"].tolist() == [0] and "final_obs" not in second and second["asks"]


def test_images_of_all_slots_are_rendered():
    spec = spec_of((3, 4, 5), branches=(2,))
    env, _ = wrap([Asks(0, 0.2), Asks(1, 1)], spec=spec, render_mode="rgb_array", uint8_visual=True)
    seen, _ = env.reset()
    assert seen.dtype == np.uint8 and seen.shape == (2, 3, 4, 5)
    assert [frame.max() for frame in env.render()] == [51, 255]
