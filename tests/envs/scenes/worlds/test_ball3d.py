"""The rules of 3DBall."""

import numpy as np
import pytest
from lanista.envs.scenes.worlds.ball3d import Ball3D
from scene_play import ScenePlay


class Play(ScenePlay):
    scene = Ball3D

    def act(self, actions=0.0):
        return super().act(continuous=actions)

    def asking(self):
        return self.batch.obs[0][~self.batch.done]


def balance(obs):
    """A plain controller that keeps the ball near the middle."""
    x, z, velocity_x, velocity_z = obs[:, 2], obs[:, 4], obs[:, 5], obs[:, 7]
    want_z, want_x = 0.07 * x + 0.07 * velocity_x, -0.07 * z - 0.07 * velocity_z
    return np.stack([10 * (want_z - obs[:, 0]), 10 * (want_x - obs[:, 1])], axis=1).clip(-1, 1)


def test_starts_tilted_at_most_ten_degrees_with_the_ball_above_the_middle():
    batch = Play(areas=500).batch
    obs = batch.obs[0]
    limit = np.sin(np.radians(5)) + 1e-6
    assert 0.9 * limit < np.abs(obs[:, :2]).max() <= limit
    np.testing.assert_array_equal(obs[:, 3], 4)
    assert 1.4 < np.abs(obs[:, [2, 4]]).max() <= 1.5
    np.testing.assert_array_equal(obs[:, 5:], 0)
    np.testing.assert_array_equal(batch.reward, 0)
    np.testing.assert_array_equal(batch.agent_id, np.arange(500))
    assert not batch.done.any()


def test_first_action_turns_about_z_the_second_about_x_and_both_at_most_by_two_degrees():
    play = Play(areas=2)
    before = play.asking()
    after = play.act([[1000, 0], [0, 1]]).obs[0]
    ten_degrees = np.sin(np.radians(5))
    assert after[0, 0] - before[0, 0] == pytest.approx(ten_degrees, rel=0.05)
    assert after[1, 1] - before[1, 1] == pytest.approx(ten_degrees, rel=0.05)


@pytest.mark.parametrize("gravity", [None, 20.0])
def test_a_decision_is_five_physics_steps_of_free_fall_under_the_newest_gravity(gravity):
    play = Play(areas=12)
    if gravity is not None:
        play.parameters.set("gravity", gravity)
    obs, gravity = play.act().obs[0], gravity or 9.81
    np.testing.assert_allclose(obs[:, 6], -5 * gravity * 0.02, rtol=1e-5)
    np.testing.assert_allclose(obs[:, 3], 4 - 15 * gravity * 0.02**2, rtol=1e-6)


def test_pays_a_tenth_per_decision_and_minus_one_for_a_fall():
    play = Play(areas=200, seed=1)
    random = np.random.default_rng(2)
    ends = 0
    for _ in range(60):
        batch = play.act(random.uniform(-1, 1, (200, 2)))
        np.testing.assert_allclose(batch.reward[batch.done], -1)
        assert np.all(np.isin(batch.reward[~batch.done], np.float32([0, 0.1])))
        last = batch.obs[0][batch.done]
        beyond = (np.abs(last[:, [2, 4]]) > 3).any(axis=1) | (last[:, 3] < -2)
        assert beyond.all()
        assert not batch.interrupted.any()
        ends += int(batch.done.sum())
    assert ends > 200


def test_an_agent_that_fell_requests_a_decision_in_the_same_batch_under_the_same_id():
    play = Play(areas=30)
    while not play.batch.done.any():
        batch = play.act([1.0, 0.3])
    ended = batch.agent_id[batch.done]
    asking = batch.agent_id[~batch.done]
    np.testing.assert_array_equal(asking, np.arange(30))
    assert np.all(batch.done[: len(ended)])
    assert not batch.done[len(ended) :].any()
    fresh = batch.obs[0][~batch.done][ended]
    # One to five physics steps into the new episode, the box at rest at its start.
    steps = np.round(fresh[:, 6] / (-9.81 * 0.02)).astype(int)
    assert np.all((steps >= 1) & (steps <= 5))
    assert np.abs(fresh[:, :2]).max() < np.sin(np.radians(5)) + 1e-6
    # An agent that fell at the last of the five steps has not acted since.
    np.testing.assert_allclose(batch.reward[~batch.done][ended], np.where(steps == 1, 0, 0.1), rtol=1e-6)


def test_an_episode_is_interrupted_after_a_thousand_decisions_with_a_return_of_100():
    play = Play(areas=6)
    returns = np.zeros(6)
    for decision in range(1, 1001):
        batch = play.act(balance(play.asking()))
        assert batch.done.any() == (decision == 1000)
        returns += batch.reward[:6]
    assert batch.done[:6].all()
    assert batch.interrupted[:6].all()
    assert not batch.interrupted[6:].any()
    np.testing.assert_allclose(returns, 100, rtol=1e-4)
    np.testing.assert_array_equal(batch.reward[6:], 0)
    for _ in range(999):
        batch = play.act(balance(play.asking()))
        assert not batch.done.any()
    assert play.act(balance(play.asking())).interrupted[:6].all()


def test_random_actions_last_about_as_long_as_in_unity():
    play = Play(areas=100)
    random = np.random.default_rng(0)
    age, lengths = np.zeros(100, int), []
    for _ in range(150):
        batch = play.act(random.uniform(-1, 1, (100, 2)))
        age += 1
        ended = batch.agent_id[batch.done]
        lengths.extend(age[ended])
        age[ended] = 0
    assert 18 < np.mean(lengths) < 26


def test_a_reset_restarts_every_episode_without_terminal_rows():
    play = Play(areas=12)
    play.act(1.0)
    play.reset()
    assert not play.batch.done.any()
    np.testing.assert_array_equal(play.batch.obs[0][:, 3], 4)
    np.testing.assert_array_equal(play.batch.reward, 0)


def test_a_new_scale_comes_with_the_next_episode():
    play = Play(areas=1)
    play.parameters.set("scale", 2.0)
    assert play.world.balls.radius[0] == 0.5
    play.reset()
    assert play.world.balls.radius[0] == 1.0


@pytest.mark.parametrize("scale", [0.2, 5.0])
@pytest.mark.parametrize("gravity", [4.0, 105.0])
def test_stays_sane_at_the_ends_of_the_published_ranges(scale, gravity):
    play = Play(areas=12, parameters={"scale": scale, "gravity": gravity, "mass": 20.0})
    random = np.random.default_rng(0)
    for _ in range(100):
        batch = play.act(random.uniform(-1, 1, (12, 2)))
        assert np.isfinite(batch.obs[0]).all()
        assert np.abs(batch.obs[0][:, 2:5]).max() < 40
