"""Gymnasium's environments as agents of one behavior: episodes, frames, seeds, masks, lives."""

from functools import partial

import numpy as np
import pytest

pytest.importorskip("gymnasium")

import gymnasium
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple
from gymnasium_games import GAME, NUMBER, Cat, ScriptedGymEnv, environment, episode, moment, number
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.envs.errors import EnvContractError
from lanista.envs.manager.async_env import SyncAdapter
from lanista.envs.python.gymnasium.environment import GymnasiumEnvironment
from mlagents_envs.base_env import ActionTuple
from mlagents_envs.exception import UnityActionException, UnityEnvironmentException


def rows(steps):
    return [(each.agent_id.tolist(), each.obs[0][:, 0].tolist(), each.reward.tolist()) for each in steps]


def test_episodes_end_with_their_own_last_observation_and_the_next_starts_at_once():
    env, _ = environment(episode(number(10), number(11), terminated=True), episode(number(20), number(21)))
    env.reset()
    assert rows(env.get_steps(GAME)) == [([0], [10], [0]), ([], [], [])]
    env.step()
    assert rows(env.get_steps(GAME)) == [([1], [20], [0]), ([0], [11], [1])]
    env.step()
    assert rows(env.get_steps(GAME)) == [([1], [21], [1]), ([], [], [])]


@pytest.mark.parametrize(
    ("terminated", "truncated", "interrupted"),
    [(True, False, False), (False, True, True), (True, True, False)],
)
def test_truncation_is_an_interruption_and_termination_is_not(terminated, truncated, interrupted):
    end = episode(number(0), number(1), terminated=terminated, truncated=truncated)
    env, _ = environment(end)
    env.reset()
    env.step()
    assert env.get_steps(GAME)[1].interrupted.tolist() == [interrupted]


def test_copies_that_end_do_not_disturb_the_others():
    lengths = iter([2, 3, 2])

    def make():
        n = next(lengths)
        return ScriptedGymEnv(
            NUMBER, Discrete(2), episode(*(number(10 * n + k) for k in range(n)), truncated=True)
        )

    env = GymnasiumEnvironment(make, "Game", copies=3)
    env.reset()
    env.step()
    assert rows(env.get_steps(GAME)) == [([3, 1, 4], [20, 31, 20], [0, 1, 0]), ([0, 2], [21, 21], [1, 1])]


def test_observations_that_were_returned_do_not_change():
    env, _ = environment(episode(number(1), number(2), number(3)), stack=2)
    env.reset()
    before = env.get_steps(GAME)[0].obs[0]
    env.step()
    assert before.tolist() == [[0, 1]] and env.get_steps(GAME)[0].obs[0].tolist() == [[1, 2]]


@pytest.mark.parametrize("images", ["uint8", "float32"])
def test_a_stack_holds_the_last_frames_oldest_first_and_zeros_before_an_episode(images):
    seen = Dict(eye=Box(0, 255, (2, 3), np.uint8), speed=NUMBER)
    frames = [{"eye": np.full((2, 3), k, np.uint8), "speed": number(k)} for k in range(1, 9)]
    env, _ = environment(episode(*frames[:5], truncated=True), [moment(frames[7])], seen=seen, stack=3,
                         images=images)  # fmt: skip
    specs = env.behavior_specs[GAME].observation_specs
    stacked = ["StackingSensor_size3_eye", "StackingSensor_size3_speed"]
    assert [(spec.name, spec.shape) for spec in specs] == list(zip(stacked, [(3, 2, 3), (3,)]))
    scale = 255 if images == "float32" else 1
    for expected in ([0, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4]):
        env.step()
        eye, speed = env.get_steps(GAME)[0].obs
        np.testing.assert_allclose(eye[0, :, 1, 2] * scale, expected, rtol=1e-6)
        assert speed[0].tolist() == expected
    env.step()
    decisions, terminals = env.get_steps(GAME)
    assert terminals.obs[1].tolist() == [[3, 4, 5]] and decisions.obs[1].tolist() == [[0, 0, 8]]
    np.testing.assert_allclose(terminals.obs[0][0, :, 0, 0] * scale, [3, 4, 5], rtol=1e-6)


def test_every_copy_has_a_seed_of_its_own_for_its_first_episode():
    def seeds(seed):
        env, games = environment(episode(number(0), number(1), truncated=True), copies=3, seed=seed)
        env.reset()
        env.step()
        assert [game.seeds[1:] for game in games] == [[None]] * 3
        return [game.seeds[0] for game in games]

    assert seeds(5) == seeds(5)
    assert seeds(5)[0] == 5 and len(set(seeds(5) + seeds(6))) == 6
    assert seeds(None) == [None] * 3


def test_masks_come_from_the_info_or_the_observation():
    acts = Tuple([Discrete(2), Discrete(3, start=4)])
    mask = (np.int8([1, 0]), np.int8([0, 1, 1]))
    env, _ = environment([moment(number(0)), moment(number(1), info={"action_mask": mask})], acts=acts)
    env.reset()
    assert env.get_steps(GAME)[0].action_mask is None
    env.step()
    masks = [part.tolist() for part in env.get_steps(GAME)[0].action_mask]
    assert masks == [[[False, True]], [[True, False, False]]]
    seen = Dict(place=NUMBER, action_mask=MultiBinary(2))
    env, _ = environment([moment({"place": number(0), "action_mask": np.int8([0, 1])})], seen=seen)
    env.reset()
    assert env.get_steps(GAME)[0].action_mask[0].tolist() == [[True, False]]
    assert [spec.name for spec in env.behavior_specs[GAME].observation_specs] == ["place"]


def test_copies_may_share_a_mask_that_they_change():
    """Two copies have one array, and the second is stepped after the first."""
    mask = np.ones(2, np.int8)

    class Sharing(Cat):
        def seen(self):
            mask[:] = self.time % 2, 1
            return np.float32([self.time]), {"action_mask": mask}

    env = GymnasiumEnvironment(Sharing, "Game", copies=2)
    env.reset()
    env._envs[1].time += 1
    env.step()
    assert env.get_steps(GAME)[0].action_mask[0].tolist() == [[False, False], [True, False]]


def test_a_mask_of_another_size_is_refused_in_whole_sentences():
    env, _ = environment([moment(number(0), info={"action_mask": np.int8([1, 0, 1])})])
    with pytest.raises(EnvContractError, match=r"has 3 entries; the branches \(2,\) need 2\. gymnasium\."):
        env.reset()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("reward", [2, 2.0, np.float64(2), np.array(2.0), np.array([2.0]), np.float32([[2]])])
def test_a_reward_may_be_any_array_of_one_number(reward):
    """Rewards that are computed from observations are often arrays of one number."""
    env, _ = environment([moment(number(0)), moment(number(1), reward)])
    env.reset()
    env.step()
    assert env.get_steps(GAME)[0].reward.tolist() == [2.0]


class Unreadable:
    """Like a tensor with a gradient."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("use detach")

    __float__ = __array__


PARTS = Dict({"place": Box(0, 1, (2, 3)), "kind": Discrete(3), "old": Tuple((NUMBER,))})
GOOD = {"place": np.zeros((2, 3)), "kind": 0, "old": (number(0),)}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({**GOOD, "place": np.zeros((3, 2))}, r"'place' has the shape \(3, 2\); expected \(2, 3\)"),
        ({**GOOD, "place": [["a"] * 3] * 2}, r"'place' is .*<U1.*expected numbers"),
        ({**GOOD, "place": [[1, 2, 3], [4]]}, r"unequal lengths; .* shape \(2, 3\)\."),
        ({**GOOD, "kind": 1.5}, r"'kind' is 1\.5; expected an integer"),
        ({**GOOD, "kind": 3}, "'kind' is 3, which is not in its space"),
        (
            {"place": np.zeros((2, 3)), "old": ()},
            "lacks 'kind': there is no key 'kind', found 'place', 'old'",
        ),
        ({**GOOD, "old": ()}, r"lacks 'old\.0': there is no part 0, found \(\)"),
        (np.zeros(3), "lacks 'kind': expected a dict there, found array"),
    ],
)
def test_an_invalid_observation_is_named_with_what_was_expected(wrong, message):
    env, _ = environment([moment(GOOD), moment(wrong)], seen=PARTS)
    env.reset()
    with pytest.raises(EnvContractError, match=message):
        env.step()


@pytest.mark.parametrize(
    ("method", "gives", "message"),
    [
        ("step", (number(0), 1.0, False, {}), r"returned 4 values; expected 5: observation.*old package gym"),
        ("step", number(0), "returned a ndarray; expected 5"),
        ("step", (number(0), None, False, False, {}), r"the reward is None \(NoneType\); expected a number"),
        ("step", (number(0), "1", False, False, {}), r"the reward is '1' \(str\).*check_env"),
        ("step", (number(0), np.ones(2), False, False, {}), "the reward is array"),
        (
            "step",
            (number(0), Unreadable(), False, False, {}),
            r"the reward is .*\(Unreadable\); expected a num",
        ),
        ("step", (Unreadable(), 1.0, False, False, {}), "is a Unreadable that NumPy cannot read: use detach"),
        ("step", (n for n in "ab"), "returned a generator; expected 5"),
        (
            "step",
            (number(0), 1, False, False, {"action_mask": np.float32([0, -np.inf])}),
            r"mask is \[0\.0, -inf\]; expected 1 for each allowed action, 0 for others",
        ),
        (
            "step",
            (number(0), 1, False, False, {"action_mask": ["a", "b"]}),
            r"mask is \['a', 'b'\]; expected 1",
        ),
        ("step", (number(0), 1, False, False, {"action_mask": np.ones(5)}), "mask has 5 entries"),
        ("step", (number(0), 1, None, False, {}), r"terminated is None \(NoneType\); expected True or False"),
        ("step", (number(0), 1, False, False, None), r"returned as info None \(NoneType\); expected a dict"),
        ("reset", number(0), "reset of .* returned a ndarray; expected 2: observation, info"),
    ],
)
def test_an_invalid_answer_is_named_with_what_was_expected(method, gives, message):
    env, (game,) = environment([moment(number(0)), moment(number(1), terminated=True)])
    env.reset()
    setattr(game, method, lambda *_, **__: gives)
    with pytest.raises(EnvContractError, match=message) as fault:
        env.step()
    assert "\n" not in str(fault.value) and "object at 0x" not in str(fault.value).partition(" returned")[0]


def test_an_error_of_the_environment_is_reported_with_its_place():
    env, (game,) = environment([moment(number(0))])
    env.reset()
    game.step = lambda action: {}["speed"]
    with pytest.raises(EnvContractError, match=r"step of .*KeyError: 'speed' \(test_env.*\.py, line \d+\)"):
        env.step()


def test_a_value_outside_a_discrete_space_is_an_error():
    env, _ = environment([moment(3)], seen=Discrete(3))
    with pytest.raises(EnvContractError, match="is 3, which is not in its space"):
        env.reset()


def test_actions_may_be_set_for_one_agent_and_default_to_zeros():
    env, games = environment([moment(number(0))] * 3, acts=Discrete(3, start=5), copies=2)
    with pytest.raises(UnityActionException, match="none before the first reset"):
        env.get_steps(GAME)
    env.reset()
    env.set_action_for_agent(GAME, 1, ActionTuple(discrete=np.int32([[2]])))
    env.step()
    env.step()
    assert [game.actions for game in games] == [[5, 5], [7, 5]]
    with pytest.raises(IndexError, match="agent_id 7"):
        env.set_action_for_agent(GAME, 7, ActionTuple(discrete=np.int32([[2]])))
    with pytest.raises(UnityActionException, match="no behavior 'Other'"):
        env.get_steps("Other")


def test_all_copies_are_closed_and_the_first_is_drawn():
    env, games = environment([moment(number(0))] * 2, copies=2)
    env.reset()
    env.step()
    assert env.draw().shape == (4, 6, 3) and (env.draw() == 1).all()
    for frame, found in (
        (None, r"None \(NoneType\)"),
        (np.zeros((4, 6)), r"an array of the shape \(4, 6\)"),
        (np.zeros((4, 6, 3)), "dtype float64"),
    ):
        games[0].render = lambda frame=frame: frame
        with pytest.raises(
            EnvContractError, match=rf"render of .* returned .*{found}.*; expected .*\(height, wi"
        ):
            env.draw()
    games[0].render = lambda: {}["font"]
    with pytest.raises(EnvContractError, match=r"render of .* raised KeyError: 'font' \(test_env"):
        env.draw()
    env.close()
    assert [game.closed for game in games] == [True, True]
    with pytest.raises(UnityEnvironmentException, match="0 copies"):
        environment([moment(number(0))], copies=0)


# Lives ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("emulator", [False, True], ids=["info", "emulator"])
def test_lost_lives_are_reported_except_for_the_last(emulator):
    env = SyncAdapter(GymnasiumEnvironment(lambda: Cat(2, emulator), "Cat", lives=True))
    env.send_reset()
    env.receive()
    found = []
    for _ in range(12):
        env.send_step()
        env.receive()
        ended = env.get_steps("Cat?team=0")[1].agent_id.tolist()
        found.append((env.lost_lives("Cat?team=0").tolist(), ended))
    lost, over = ([0], []), ([], [0])
    nothing = ([], [])
    assert found[:6] == [nothing, nothing, lost, nothing, nothing, over]
    assert found[8] == ([1], []) and found[11] == ([], [1])


def test_lives_are_read_only_when_requested_and_must_then_be_there():
    env = GymnasiumEnvironment(lambda: Cat(2), "Cat")
    env.reset()
    for _ in range(3):
        env.step()
    assert len(env.lost_lives("Cat?team=0")) == 0
    env, _ = environment([moment(number(0))], lives=True)
    with pytest.raises(EnvContractError, match=r"reports no lives.*Leave lives out"):
        env.reset()
    env, _ = environment([moment(number(0), info={"lives": None})], lives=True)
    with pytest.raises(EnvContractError, match=r"info\['lives'\] is None \(NoneType\); expected a number"):
        env.reset()


# Gymnasium's own environments -----------------------------------------------------------------------------


@settings(max_examples=5)
@given(st.integers(0, 2**20))
def test_cart_poles_behave_as_gymnasium_steps_them(seed):
    make = partial(gymnasium.make, "CartPole-v1", max_episode_steps=15)
    env, plain = GymnasiumEnvironment(make, "CartPole", seed=seed), make()
    env.reset()
    np.testing.assert_array_equal(env.get_steps("CartPole?team=0")[0].obs[0][0], plain.reset(seed=seed)[0])
    random = np.random.default_rng(seed)
    for _ in range(60):
        action = int(random.integers(2))
        env.set_actions("CartPole?team=0", ActionTuple(discrete=np.int32([[action]])))
        env.step()
        observation, reward, terminated, truncated, _ = plain.step(action)
        decisions, terminals = env.get_steps("CartPole?team=0")
        if terminated or truncated:
            np.testing.assert_array_equal(terminals.obs[0][0], observation)
            assert terminals.reward[0] == reward and terminals.interrupted[0] == (not terminated)
            observation = plain.reset()[0]
        else:
            assert len(terminals) == 0 and decisions.reward[0] == reward
        np.testing.assert_array_equal(decisions.obs[0][0], observation)
