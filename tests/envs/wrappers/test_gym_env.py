"""An engine with one agent as a Gymnasium environment."""

import logging

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.spaces import Box, Discrete, MultiDiscrete, Tuple  # noqa: E402
from lanista.envs.wrappers import UnityGymException, UnityToGymWrapper  # noqa: E402
from mlagents_envs.base_env import ActionSpec, BehaviorSpec  # noqa: E402
from scripted_env import BALL, NAME, Asks, Ends, ScriptedEnv, spec_of  # noqa: E402

STILL = np.zeros(2, np.float32)


def wrap(*script, spec=BALL, **options):
    env = ScriptedEnv(list(script), {NAME: spec})
    return UnityToGymWrapper(env, **options), env


def test_a_step_returns_gymnasiums_five_values():
    env, engine = wrap([Asks(0, 1)], [Asks(0, 2, 0.5)], [Ends(0, 3, -1), Asks(4, 9)])
    seen, info = env.reset()
    assert seen == [1] and info["agent_id"] == 0
    seen, reward, terminated, truncated, _ = env.step(np.float32([1, -1]))
    assert (seen.tolist(), reward, terminated, truncated) == ([2], 0.5, False, False)
    assert engine.acted == [{0: ([1, -1], [])}]
    seen, reward, terminated, truncated, info = env.step(STILL)
    assert (seen.tolist(), reward, terminated, truncated) == ([3], -1, True, False)
    assert info["agent_id"] == 0
    seen, info = env.reset()
    assert seen == [1] and engine.resets == 2


def test_an_interrupted_episode_is_truncated():
    env, _ = wrap([Asks(0)], [Ends(0, interrupted=True)])
    env.reset()
    assert env.step(STILL)[2:4] == (False, True)


def test_the_engine_is_stepped_until_the_agent_requests_a_decision():
    env, engine = wrap([Asks(0, 1)], [], [], [Asks(0, 2, 0.5)])
    env.reset()
    seen, reward, *_ = env.step(np.float32([1, 0]))
    assert (seen.tolist(), reward) == ([2], 0.5)
    assert engine.acted == [{0: ([1, 0], [])}, {}, {}]


def test_an_agent_may_appear_late_after_a_reset():
    env, engine = wrap([], [], [Asks(3, 5)])
    assert env.reset()[0] == [5]
    assert len(engine.acted) == 2


def test_an_agent_that_ends_without_a_decision_is_ignored():
    env, _ = wrap([Asks(0)], [Ends(7, 9, 5)], [Asks(0, 2, 1)])
    env.reset()
    seen, reward, terminated, *_ = env.step(STILL)
    assert (seen.tolist(), reward, terminated) == ([2], 1, False)


def test_the_first_reset_does_not_reset_the_engine_again():
    env, engine = wrap([Asks(0)])
    env.reset()
    assert engine.resets == 1
    env.reset()
    assert engine.resets == 2


def test_a_step_before_a_reset_or_after_an_end_is_an_error():
    env, _ = wrap([Asks(0)], [Ends(0)])
    with pytest.raises(UnityGymException, match=r"Call reset\(\)"):
        env.step(STILL)
    env.reset()
    env.step(STILL)
    with pytest.raises(UnityGymException, match=r"episode has ended.*Call reset\(\)"):
        env.step(STILL)


def test_a_closed_environment_is_an_error():
    env, engine = wrap([Asks(0)])
    env.close()
    env.close()
    assert engine.closed
    for use in (env.reset, lambda: env.step(STILL)):
        with pytest.raises(UnityGymException, match="it was closed"):
            use()
    assert issubclass(UnityGymException, gymnasium.error.Error)


def test_several_behaviors_are_refused():
    with pytest.raises(UnityGymException, match=r"only be one behavior.*2 were found: Ball\?team=0, Cube"):
        UnityToGymWrapper(ScriptedEnv([{NAME: [Asks(0)]}], {NAME: BALL, "Cube?team=0": BALL}))


def test_several_agents_are_refused_even_later():
    with pytest.raises(UnityGymException, match="only be one Agent in the environment but 2 were detected"):
        wrap([Asks(0), Asks(1)])
    env, _ = wrap([Asks(0)], [Asks(0), Asks(1)])
    env.reset()
    with pytest.raises(UnityGymException, match="but 2 were detected"):
        env.step(STILL)


def test_behaviors_without_observations_or_actions_are_refused():
    with pytest.raises(UnityGymException, match="no observations provided"):
        wrap([Asks(0)], spec=spec_of(continuous=1))
    with pytest.raises(UnityGymException, match="No actions found"):
        wrap([Asks(0)], spec=spec_of((1,)))


def test_waiting_for_a_decision_is_limited(monkeypatch):
    monkeypatch.setattr("lanista.envs.wrappers.stepper.MAX_IDLE_STEPS", 20)
    with pytest.raises(UnityGymException, match=r"20 messages.*those of Ball\?team=0 are silent"):
        wrap([])


def test_allow_multiple_obs_returns_all_observations(caplog):
    spec = spec_of((2,), (3, 4, 5), (6, 2), (1,), (1, 2, 2), branches=(2,))
    env, _ = wrap([Asks(0, 0.5)], spec=spec)
    assert env.observation_space == Box(0, 1, (3, 4, 5), np.float32)
    assert "sensor(2,)" in caplog.text and "allow_multiple_obs" in caplog.text
    env, _ = wrap([Asks(0, 0.5)], spec=spec, allow_multiple_obs=True, uint8_visual=True)
    assert [part.shape for part in env.observation_space] == [(3, 4, 5), (1, 2, 2), (6, 2), (3,)]
    seen, _ = env.reset()
    assert isinstance(seen, tuple) and seen in env.observation_space
    assert seen[0].dtype == np.uint8 and (seen[0] == 128).all() and (seen[3] == 0.5).all()


def test_uint8_images_are_the_bytes_that_were_sent():
    """255 * x, truncated, is one too small for some of them."""
    env, engine = wrap([Asks(0)], spec=spec_of((1, 16, 16), branches=(2,)), uint8_visual=True)
    pixels = np.arange(256, dtype=np.uint8).reshape(1, 16, 16)
    env.reset()
    steps = engine.get_steps(NAME)
    for sent in (pixels.astype(np.float32) / np.float32(255), pixels):
        steps[0].obs[0] = sent[None]
        engine.get_steps = lambda name: steps
        np.testing.assert_array_equal(env.reset()[0], pixels)


def test_a_set_alone_is_the_observation():
    env, _ = wrap([Asks(0, 2)], spec=spec_of((6, 2), branches=(2,)))
    assert env.observation_space.shape == (6, 2) and env.reset()[0].sum() == 24


def test_discrete_actions():
    env, engine = wrap([Asks(0)], spec=spec_of((1,), branches=(3,)))
    assert env.action_space == Discrete(3)
    env.reset()
    env.step(2)
    env.step(np.int64(1))
    assert [step[0][1] for step in engine.acted] == [[2], [1]]
    env, engine = wrap([Asks(0)], spec=spec_of((1,), branches=(3, 2)))
    assert env.action_space == MultiDiscrete([3, 2])
    env.reset()
    env.step(np.array([2, 1]))
    assert engine.acted[0][0][1] == [2, 1]


def test_the_last_of_flattened_branches_varies_fastest():
    spec = spec_of((1,), branches=(3, 2))
    env, engine = wrap([Asks(0, allowed=((0, 2), (1,)))], spec=spec, flatten_branched=True)
    assert env.action_space == Discrete(6)
    _, info = env.reset()
    assert info["action_mask"].tolist() == [0, 1, 0, 0, 0, 1]
    for action in range(6):
        env.step(action)
    assert [step[0][1] for step in engine.acted] == [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]


def test_hybrid_actions_are_a_tuple():
    env, engine = wrap([Asks(0, allowed=((1,),))], spec=spec_of((1,), continuous=2, branches=(3,)))
    assert env.action_space == Tuple([Box(-1, 1, (2,), np.float32), Discrete(3)])
    _, info = env.reset()
    env.action_space.seed(0)
    assert {env.action_space.sample(info["action_mask"])[1] for _ in range(20)} == {1}
    env.step((np.float32([0.5, -1]), 2))
    assert engine.acted[0][0] == ([0.5, -1], [2])
    with pytest.raises(UnityGymException, match="expected a tuple of 2"):
        env.step(np.float32([0.5, -1]))
    with pytest.raises(UnityGymException, match=r"flatten_branched.*2 continuous"):
        wrap([Asks(0)], spec=spec_of((1,), continuous=2, branches=(3,)), flatten_branched=True)


def test_flat_actions_choose_the_largest_allowed_number_of_each_branch():
    spec = spec_of((1,), continuous=2, branches=(3, 2))
    script = [Asks(0, allowed=((0, 1), (0, 1)))], [Asks(0, allowed=((0, 1, 2), (1,)))], [Asks(0)]
    env, engine = wrap(*script, spec=spec, flatten_actions=True)
    assert env.action_space == Box(-1, 1, (7,), np.float32)
    _, info = env.reset()
    assert info["action_mask"].tolist() == [1, 1, 0, 1, 1]
    for _ in range(3):
        env.step(np.float32([0.5, -0.25, -0.5, 0.25, 1, 0.5, 0.25]))
    assert [step[0] for step in engine.acted] == [
        ([0.5, -0.25], [1, 0]),
        ([0.5, -0.25], [2, 1]),
        ([0.5, -0.25], [2, 0]),
    ]
    with pytest.raises(UnityGymException, match=r"expected the shape \(7,\), found \(3,\)"):
        env.step(np.zeros(3, np.float32))
    with pytest.raises(UnityGymException, match="NaN"):
        env.step(np.full(7, np.nan, np.float32))
    with pytest.raises(UnityGymException, match="give one of them"):
        discrete = spec_of((1,), branches=(3, 2))
        wrap([Asks(0)], spec=discrete, flatten_actions=True, flatten_branched=True)


@pytest.mark.parametrize(("branches", "allowed"), [((3,), ((0, 2),)), ((3, 2), ((0,), (0, 1)))])
def test_masks_fit_the_sample_method_of_the_space(branches, allowed):
    env, _ = wrap([Asks(0, allowed=allowed)], [Ends(0)], spec=spec_of((1,), branches=branches))
    _, info = env.reset()
    drawn = np.array([np.ravel(env.action_space.sample(info["action_mask"])) for _ in range(60)])
    assert [set(column) for column in drawn.T] == [set(each) for each in allowed]
    assert "action_mask" not in env.step(env.action_space.sample())[4]


@pytest.mark.parametrize(
    ("spec", "action", "message"),
    [
        (BALL, np.zeros(3), r"expected the shape \(2,\), found \(3,\)"),
        (BALL, np.zeros((1, 2)), r"expected the shape \(2,\), found \(1, 2\)"),
        (BALL, 0.0, r"expected the shape \(2,\), found \(\)"),
        (BALL, [np.nan, 0], "NaN"),
        (BALL, ["left", "right"], "not an array of numbers"),
        (spec_of((1,), branches=(3,)), 3, "no such action"),
        (spec_of((1,), branches=(3,)), -1, "no such action"),
        (spec_of((1,), branches=(3,)), 0.5, "expected integers"),
        (spec_of((1,), branches=(3,)), None, "expected integers"),
        (spec_of((1,), branches=(3,)), [1], r"expected the shape \(\), found \(1,\)"),
        (spec_of((1,), branches=(3, 2)), [1, 2], "no such action"),
        (spec_of((1,), branches=(3, 2)), [[1], [1, 2]], "inhomogeneous"),
    ],
)
def test_invalid_actions_name_what_was_found_and_expected(spec, action, message):
    env, engine = wrap([Asks(0)], spec=spec)
    env.reset()
    with pytest.raises(
        UnityGymException, match=f"Invalid action, got .* was expecting action from .*{message}"
    ):
        env.step(action)
    assert engine.acted == []


def test_images_are_rendered():
    spec = BehaviorSpec([*spec_of((2,), (5, 4, 4), (1, 4, 6)).observation_specs], ActionSpec(1, ()))
    env, _ = wrap([Asks(0, 0.2)], spec=spec, render_mode="rgb_array")
    env.reset()
    frame = env.render()
    assert frame.shape == (4, 6, 3) and frame.dtype == np.uint8 and (frame == 51).all()
    assert wrap([Asks(0)], spec=spec)[0].render() is None
    with pytest.raises(UnityGymException, match=r"needs an image.*sensor\(1,\)"):
        wrap([Asks(0)], render_mode="rgb_array")
    with pytest.raises(UnityGymException, match="Unknown render mode 'human'"):
        wrap([Asks(0)], spec=spec, render_mode="human")


def test_parameters_reach_the_engine_before_its_reset():
    env, engine = wrap([Asks(0)])
    env.reset(options={"parameters": {"mass": 2.0}, "else": 1})
    assert engine.parameters == {"mass": 2.0} and engine.resets == 2


def test_a_seed_that_cannot_reach_the_engine_is_a_single_warning(caplog):
    env, _ = wrap([Asks(0)])
    with caplog.at_level(logging.WARNING):
        env.reset(seed=3)
        env.reset(seed=4)
    assert caplog.text.count("does not reach the engine") == 1
    env.action_space.seed(1)
    again, _ = wrap([Asks(0)], action_space_seed=1)
    np.testing.assert_array_equal(env.action_space.sample(), again.action_space.sample())


def test_importing_the_package_loads_neither_library():
    import subprocess
    import sys

    code = (
        "import sys, lanista.envs.wrappers as w; assert 'UnityToPettingZooWrapper' in dir(w);"
        "assert not {'gymnasium', 'pettingzoo', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
