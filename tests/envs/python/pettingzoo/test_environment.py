"""PettingZoo's parallel environments as a BaseEnv."""

from functools import partial

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("pettingzoo")

from gymnasium.spaces import Box, Dict, Discrete  # noqa: E402
from lanista.envs.errors import EnvContractError  # noqa: E402
from lanista.envs.manager.manager import EnvManager  # noqa: E402
from lanista.envs.python.pettingzoo.environment import PettingZooEnvironment  # noqa: E402
from lanista.envs.python.sources import make_source  # noqa: E402
from mlagents_envs.base_env import ActionTuple  # noqa: E402
from mlagents_envs.exception import UnityActionException, UnityEnvironmentException  # noqa: E402
from scripted_parallel import NOTHING, WALKER, Script, WithState, environment, zeros  # noqa: E402


def test_agents_of_equal_spaces_are_one_behavior_and_one_group():
    spaces = {
        "guide_0": (Box(0, 1, (4,), np.float32), Discrete(3)),
        "guide_1": (Box(0, 1, (4,), np.float32), Box(-1, 1, (2,))),
    }

    class Mixed(Script):
        def see(self, agent):
            return np.zeros(4 if "guide" in agent else 2)

    env, _ = environment(
        NOTHING, first=("walker_0", "guide_0", "walker_1", "guide_1"), spaces=spaces, areas=2, kind=Mixed
    )
    assert list(env.behavior_specs) == [WALKER, "guide?team=0", "guide2?team=0"]
    walkers, _ = env.get_steps(WALKER)
    np.testing.assert_array_equal(walkers.group_id, [1, 1, 2, 2])
    guides = [env.get_steps(name)[0].group_id.tolist() for name in list(env.behavior_specs)[1:]]
    assert guides == [[3, 4], [5, 6]]
    ids = [id for name in env.behavior_specs for id in env.get_steps(name)[0].agent_id]
    assert len(set(ids)) == 8


def test_steps_have_rewards_and_observations():
    env, (game,) = environment(NOTHING, NOTHING, first=("walker_0", "walker_7"))
    env.set_actions(WALKER, ActionTuple(discrete=np.array([[2], [1]], np.int32)))
    env.step()
    assert game.actions == [{"walker_0": 2, "walker_7": 1}]
    decisions, terminals = env.get_steps(WALKER)
    np.testing.assert_array_equal(decisions.obs[0], [[1, 0], [1, 7]])
    assert decisions.obs[0].dtype == np.float32
    np.testing.assert_array_equal(decisions.reward, [1.5, 1.5])
    np.testing.assert_array_equal(decisions.group_reward, [0, 0])
    assert len(terminals) == 0
    env.step()
    assert game.actions[-1] == {"walker_0": 0, "walker_7": 0}


def test_termination_is_distinguished_from_truncation():
    """Both at once are a termination."""
    first = ("walker_0", "walker_1", "walker_2", "walker_3")
    env, _ = environment(((), ("walker_0", "walker_3"), ("walker_1", "walker_3")), NOTHING, first=first)
    env.step()
    decisions, terminals = env.get_steps(WALKER)
    np.testing.assert_array_equal(terminals.agent_id, [0, 1, 3])
    np.testing.assert_array_equal(terminals.interrupted, [False, True, False])
    np.testing.assert_array_equal(terminals.obs[0][:, 1], [0, 1, 3])
    np.testing.assert_array_equal(terminals.reward, [1.5] * 3)
    np.testing.assert_array_equal(decisions.agent_id, [2])


def test_agents_come_late_and_under_a_new_id_each_time():
    env, _ = environment((("walker_1",), (), ()), ((), ("walker_1",), ()), (("walker_1",), (), ()), NOTHING)
    seen = []
    for _ in range(4):
        env.step()
        decisions, terminals = env.get_steps(WALKER)
        seen.append((decisions.agent_id.tolist(), terminals.agent_id.tolist()))
        if len(seen) == 1:
            np.testing.assert_array_equal(decisions.reward, [1.5, 0])
    assert seen == [([0, 1], []), ([0], [1]), ([0, 2], []), ([0, 2], [])]


def test_an_episode_that_ends_begins_again_in_the_same_step():
    env, (game,) = environment(((), (), ("walker_0",)), NOTHING)
    env.step()
    decisions, terminals = env.get_steps(WALKER)
    assert game.episodes == 2
    np.testing.assert_array_equal(terminals.obs[0], [[1, 0]])
    np.testing.assert_array_equal(decisions.obs[0], [[0, 0]])
    np.testing.assert_array_equal(decisions.agent_id, [1])
    np.testing.assert_array_equal(decisions.reward, [0])


def test_areas_end_for_themselves():
    env, games = environment(NOTHING, NOTHING, ((), ("walker_0",), ()), areas=2)
    env.step()
    games[1].time = 2
    env.step()
    decisions, terminals = env.get_steps(WALKER)
    np.testing.assert_array_equal(terminals.group_id, [2])
    np.testing.assert_array_equal(decisions.group_id, [1, 2])
    np.testing.assert_array_equal(decisions.agent_id, [0, 2])
    env.close()
    assert all(game.closed for game in games)


def test_a_behavior_without_agents_is_known_by_its_possible_agents():
    env, (game,) = environment(NOTHING)
    assert len(env.behavior_specs) == 1
    game.possible_agents = ["walker_0", "guide_0"]
    game.spaces = {"guide_0": (Box(0, 1, (4,), np.float32), Discrete(3))}
    env.reset()
    assert list(env.behavior_specs) == [WALKER, "guide?team=0"]
    assert [len(steps) for steps in env.get_steps("guide?team=0")] == [0, 0]


@pytest.mark.parametrize("state_observation", [False, True])
def test_an_environment_may_reuse_its_arrays(state_observation):
    class Thrifty(WithState):
        seen, shown = np.zeros(2), np.zeros(2)
        mask = np.ones(3, np.int8)

        def see(self, agent):
            self.seen[:] = self.time, int(agent[-1])
            self.mask[:] = 1, self.time == 0, 0
            return {"observation": self.seen, "action_mask": self.mask}

        def state(self):
            self.shown[:] = self.time, self.episodes
            return self.shown

    space = Dict(observation=Box(-9, 9, (2,)), action_mask=Box(0, 1, (3,), np.int8))
    spaces = {"walker_0": (space, Discrete(3))}
    script = ((), ("walker_0",), ())
    env, _ = environment(script, kind=Thrifty, spaces=spaces, state_observation=state_observation)
    env.step()
    decisions, terminals = env.get_steps(WALKER)
    # The next episode has begun in the arrays in which the last one ended.
    np.testing.assert_array_equal(terminals.obs[0], [[1, 0]])
    np.testing.assert_array_equal(decisions.obs[0], [[0, 0]])
    np.testing.assert_array_equal(decisions.action_mask[0], [[False, False, True]])
    if state_observation:
        assert env.behavior_specs[WALKER].observation_specs[-1].name == "state"
        np.testing.assert_array_equal(terminals.obs[1], [[1, 1]])
        np.testing.assert_array_equal(decisions.obs[1], [[0, 2]])


@pytest.mark.parametrize("within", ["observation", "info"])
def test_an_environment_may_reuse_its_masks(within):
    """Two areas share one array, and the second is stepped after the first."""
    mask = np.ones(3, np.int8)

    class Sharing(Script):
        def see(self, agent):
            mask[:] = 1, self.episodes, self.time
            seen = np.zeros(2)
            return {"observation": seen, "action_mask": mask} if within == "observation" else seen

        def reset(self, seed=None):
            observations, _ = super().reset()
            return observations, {agent: {"action_mask": np.array([1, 0, 1])} for agent in observations}

        def step(self, actions):
            *answer, _ = super().step(actions)
            return *answer, {agent: {"action_mask": mask} for agent in actions}

    plain = Box(-9, 9, (2,))
    dictionary = Dict(observation=plain, action_mask=Box(0, 1, (3,), np.int8))
    spaces = {"walker_0": (dictionary if within == "observation" else plain, Discrete(3))}
    env, games = environment(NOTHING, NOTHING, kind=Sharing, spaces=spaces, areas=2)
    first = [False, True, False] if within == "info" else [False, False, True]
    np.testing.assert_array_equal(env.get_steps(WALKER)[0].action_mask[0], [first] * 2)
    assert [spec.name for spec in env.behavior_specs[WALKER].observation_specs] == ["observation"]
    games[0].time, games[1].time = 0, -1
    env.step()
    np.testing.assert_array_equal(env.get_steps(WALKER)[0].action_mask[0][:, 2], [False, True])


def test_the_global_state_is_computed_only_where_it_is_observed():
    class Dear(Script):
        def state(self):
            raise AssertionError("nobody wants it")

    env, _ = environment(((), ("walker_0",), ()), kind=Dear)
    env.step()


def test_without_a_global_state_observing_it_is_an_error():
    with pytest.raises(UnityEnvironmentException, match="no global state"):
        environment(NOTHING, state_observation=True)


def test_only_the_first_reset_is_seeded():
    env, games = environment(NOTHING, seed=5, areas=3)
    env.reset()
    seeds = [game.seeds for game in games]
    assert seeds[0] == [5, None]
    assert len({first for first, _ in seeds}) == 3
    assert all(second is None for _, second in seeds)


def test_one_agents_action_leaves_the_callers_arrays_alone():
    env, (game,) = environment(NOTHING, NOTHING, first=("walker_0", "walker_1"))
    all_ones, two = (ActionTuple(discrete=np.full((n, 1), k, np.int32)) for n, k in ((2, 1), (1, 2)))
    env.set_action_for_agent(WALKER, 1, two)
    env.step()
    env.set_actions(WALKER, all_ones)
    env.set_action_for_agent(WALKER, 1, two)
    np.testing.assert_array_equal(all_ones.discrete, 1)
    with pytest.raises(IndexError, match=r"agent_id 7.*\[0, 1\]"):
        env.set_action_for_agent(WALKER, 7, two)
    env.step()
    assert game.actions == [{"walker_0": 0, "walker_1": 2}, {"walker_0": 1, "walker_1": 2}]


def test_unknown_behaviors_areas_and_spaces_are_refused():
    env, _ = environment(NOTHING)
    with pytest.raises(UnityActionException, match="Nobody"):
        env.get_steps("Nobody")
    with pytest.raises(UnityEnvironmentException, match="at least 1"):
        PettingZooEnvironment(Script, areas=0)
    with pytest.raises(EnvContractError, match=r"'walker_0'.*Text.*cannot be used"):
        environment(NOTHING, spaces={"walker_0": (gymnasium.spaces.Text(3), Discrete(2))})


def test_it_plays_exactly_as_pettingzoo_does():
    spread = pytest.importorskip("mpe2.simple_spread_v3")
    alone = spread.parallel_env(max_cycles=7)
    env = make_source("pettingzoo:mpe2.simple_spread_v3?max_cycles=7&state-observation=true", seed=3)
    env.reset()
    observations, _ = alone.reset(seed=3)
    random = np.random.default_rng(0)
    for _ in range(20):
        decisions, _ = env.get_steps("agent?team=0")
        np.testing.assert_array_equal(decisions.obs[0], np.stack(list(observations.values())))
        np.testing.assert_array_equal(decisions.obs[1], np.stack([alone.state()] * 3))
        chosen = random.integers(0, 5, (3, 1)).astype(np.int32)
        env.set_actions("agent?team=0", ActionTuple(discrete=chosen))
        env.step()
        chosen = {agent: int(action) for agent, (action,) in zip(alone.agents, chosen)}
        observations, rewards, _, _, _ = alone.step(chosen)
        decisions, terminals = env.get_steps("agent?team=0")
        reported = decisions if alone.agents else terminals
        np.testing.assert_allclose(reported.reward, list(rewards.values()), rtol=1e-6)
        if not alone.agents:
            assert terminals.interrupted.all()
            observations, _ = alone.reset()
    env.close()


def test_continuous_actions_reach_the_bounds_of_their_space():
    pytest.importorskip("mpe2")
    arguments = ["--continuous_actions", "true", "--N", "4"]
    env = make_source("pettingzoo:mpe2.simple_spread_v3", arguments=arguments)
    env.reset()
    (spec,) = env.behavior_specs.values()
    assert (spec.action_spec.continuous_size, spec.observation_specs[0].shape) == (5, (24,))
    env.set_actions("agent?team=0", ActionTuple(np.full((4, 5), -1, np.float32)))
    env.step()
    assert len(env.get_steps("agent?team=0")[0]) == 4


def test_a_manager_steps_it_in_place():
    pytest.importorskip("mpe2")
    make = partial(make_source, "pettingzoo:mpe2.simple_tag_v3", areas=2)
    with EnvManager(lambda k: make(seed=k), 2, ordered=True) as manager:
        manager.start()
        steps = manager.reset()
        assert sorted(manager.behavior_specs) == ["adversary?team=0", "agent?team=0"]
        for _ in range(30):
            for step in steps:
                decisions = {name: zeros(manager, name, step.steps[name][0]) for name in step.steps}
                manager.send(step.env, decisions)
            steps = manager.wait()
        assert [len(step.steps["adversary?team=0"][0]) for step in steps] == [6, 6]


class Filmed(Script):
    """Agents see an image of the time, and the time."""

    def see(self, agent):
        image = np.full((6, 8, 3), self.time, np.uint8)
        return {"image": image, "time": np.array([self.time], np.float32)}

    def observation_space(self, agent):
        time = Box(-np.inf, np.inf, (1,), np.float32)
        return Dict({"image": Box(0, 255, (6, 8, 3), np.uint8), "time": time})


@pytest.mark.parametrize(("images", "of_one"), [("float32", 1 / np.float32(255)), ("uint8", 1)])
def test_images_reach_a_trainer_as_bytes_and_others_as_floats(images, of_one):
    env = PettingZooEnvironment(lambda: Filmed(NOTHING, ((), ("walker_0",), ())), images=images)
    env.reset()
    env.step()
    env.step()
    decisions, terminals = env.get_steps(WALKER)
    for steps, time in ((decisions, 0), (terminals, 2)):
        assert [obs.dtype for obs in steps.obs] == [images, np.float32]
        assert steps.obs[0].shape == (1, 3, 6, 8)
        assert (steps.obs[0] == np.array(time * of_one, images)).all()
        assert steps.obs[1].item() == time
