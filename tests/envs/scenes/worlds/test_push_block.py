"""The rules of Cooperative PushBlock."""

import numpy as np
import pytest
from lanista.envs.scenes.worlds.push_block import BEHAVIOR, CoopPush
from scene_play import ScenePlay

NOTHING, FORWARD, TURN_RIGHT = 0, 1, 3
STEP = -0.5 / 5000


class Play(ScenePlay):
    scene = CoopPush

    def bring_in(self, area, *blocks):
        """Put blocks onto the goal."""
        for block in blocks:
            self.world.bodies.pose[:2, area, self.world.options.agents + block] = 0, self.world.goal + 1


def test_at_full_size_blocks_and_goal_are_as_large_as_in_unity():
    world = CoopPush()
    np.testing.assert_array_equal(world.kinds, [0, 0, 1, 1, 2, 2])
    np.testing.assert_array_equal(2 * world.halves, [1, 1, 2, 2, 3, 3])
    assert world.goal == pytest.approx(12.5 - 4.3)


def test_starts_within_half_of_the_ground_with_everybody_in_the_group_of_the_area():
    play = Play(areas=100)
    world, batch = play.world, play.batch
    assert 6 < np.abs(world.bodies.pose[:2]).max() <= 6.25
    np.testing.assert_array_equal(batch.group_id, np.repeat(np.arange(1, 101), 3))
    assert len(np.unique(batch.agent_id)) == 300
    assert len(np.unique(world.turned)) == 4
    assert np.ptp(world.motion_control.heading) > 6
    assert [obs.shape for obs in batch.obs] == [(300, 6, 20, 20), (300, 10)]


def test_a_decision_is_five_physics_steps_each_of_which_costs_the_group():
    play = Play(areas=2, seed=1)
    before = play.world.bodies.pose.copy()
    batch = play.act()
    np.testing.assert_allclose(batch.group_reward, 5 * STEP, rtol=1e-6)
    np.testing.assert_array_equal(batch.reward, 0)
    np.testing.assert_allclose(play.world.bodies.pose[:, :, :3], before[:, :, :3], atol=1e-6)
    heading = play.world.motion_control.heading.copy()
    play.act(TURN_RIGHT)
    np.testing.assert_allclose(np.degrees(play.world.motion_control.heading - heading), 20)


@pytest.mark.parametrize(("block", "worth"), [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_block_in_the_goal_disappears_and_pays_its_worth_to_its_group_alone(block, worth):
    play = Play(areas=2)
    play.bring_in(1, block)
    batch = play.act()
    np.testing.assert_allclose(batch.group_reward, [5 * STEP] * 3 + [worth + 5 * STEP] * 3, rtol=1e-5)
    assert not batch.done.any()
    assert not play.world.bodies.present[1, 3 + block]
    np.testing.assert_allclose(play.act().group_reward, 5 * STEP, rtol=1e-5)


def test_all_blocks_in_the_goal_end_the_group_episode_without_interruption():
    play = Play(areas=2)
    play.bring_in(0, 0, 1, 2, 3, 4, 5)
    batch = play.act()
    np.testing.assert_array_equal(batch.done, [True] * 3 + [False] * 6)
    assert not batch.interrupted.any()
    np.testing.assert_array_equal(batch.agent_id, [0, 1, 2, 0, 1, 2, 3, 4, 5])
    # Brought in at the first of the five steps; the others belong to the next episode.
    np.testing.assert_allclose(batch.group_reward[:6], [12 + STEP] * 3 + [4 * STEP] * 3, rtol=1e-4)
    assert play.world.bodies.present.all()
    ((name, value, _),) = play.world.statistics()
    assert name == "Environment/Group Return"
    assert value == pytest.approx(12 + STEP)


def test_agents_of_the_small_size_push_a_block_home():
    play = Play(areas=1, size="small", agents=1, small_blocks=1, large_blocks=0)
    world = play.world
    world.bodies.pose[:, 0, 0], world.bodies.pose[:, 0, 1] = (0, -1, 0), (0, 0, 0)
    world.motion_control.heading[:] = 0
    for _ in range(60):
        if play.act(FORWARD).done.any():
            break
    assert play.batch.done[0]
    assert play.batch.group_reward[0] > 0.9


def test_grid_shows_mates_blocks_walls_and_the_goal_in_their_channels():
    play = Play(areas=1)
    world = play.world
    places = [(0, 0), (0, 4), (40, 40), (-3, 3), (40, 40), (3, 3), (40, 40), (-3, 6), (40, 40)]
    world.bodies.pose[:2, 0] = np.array(places, float).T
    world.bodies.pose[2] = 0
    world.motion_control.heading[:] = 0
    wall, agent, goal, small, large, very_large = world._observe(np.array([0]))[0][0, 0]
    ahead = lambda image: 19.5 - np.nonzero(image)[0]  # noqa: E731
    right = lambda image: np.nonzero(image)[1] - 9.5  # noqa: E731
    assert np.abs(ahead(agent) - 4).max() < 1
    assert np.abs(right(agent)).max() < 1
    counts = [np.count_nonzero(block) for block in (small, large, very_large)]
    assert 1 <= counts[0] <= 4 <= counts[1] <= 9 <= counts[2] <= 16
    assert np.all(right(small) < 0) and np.all(right(large) > 0)
    assert ahead(goal).min() == pytest.approx(8.5)
    assert ahead(goal).max() < 13
    assert ahead(wall).min() > 12
    assert not (wall * goal).any()
    assert {each.dtype for each in (wall, goal)} == {np.dtype(np.uint8)}, "it travels as PNG, as Unity's does"
    assert set(np.unique(wall)) == {0, 255}
    # Seen from the other end of the ground the goal is out of sight.
    world.motion_control.heading[:] = np.pi
    assert not world._observe(np.array([0]))[0][0, 0, 2].any()


def test_the_vector_has_the_blocks_that_are_not_in_the_goal():
    play = Play(areas=1, size="small", ground=10.0, small_blocks=1)
    world = play.world
    world.bodies.pose[:, 0] = np.array([(0, 0, 0), (0, 2, 0), (2, 0, 0), (1, 3, 0), (-1, -3, 0)], float).T
    world.motion_control.heading[:] = np.pi / 2
    half, goal = world.bodies.half, world.goal
    (obs,) = world._observe(np.array([0]))
    first = obs[0, 0]
    assert first.shape == world.specs()[BEHAVIOR].observation_specs[0].shape
    np.testing.assert_allclose(first[:7], [0, 0, 1, 0, 0, 0, goal / half], atol=1e-6)
    np.testing.assert_allclose(first[7:11] * half, [-2, 0, 0, 2], atol=1e-6)
    np.testing.assert_allclose(first[11:16] * [1, half, half, half, half], [1, -3, 1, goal - 3, 1], atol=1e-5)
    world.bodies.remove(np.array([0]), np.array([3]))
    (obs,) = world._observe(np.array([0]))
    np.testing.assert_array_equal(obs[0, 0, 11:18], 0)


def test_a_group_of_one_works_like_any_other():
    play = Play(areas=3, size="small", agents=1)
    for _ in range(20):
        batch = play.act(FORWARD)
    np.testing.assert_array_equal(batch.group_id, [1, 2, 3])
    assert np.isfinite(batch.obs[0]).all()
