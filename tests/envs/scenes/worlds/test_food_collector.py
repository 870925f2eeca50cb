"""The rules of FoodCollector."""

import numpy as np
import pytest
from lanista.envs.scenes.worlds.food_collector import BEHAVIOR, Food
from scene_play import ScenePlay

GRIP = 0.6 * 9.81 * 0.02


class Play(ScenePlay):
    scene = Food

    def act(self, moves=0, shoot=0):
        return super().act(shoot, moves)

    def lay(self, *agents, foods=()):
        """The agents of area 0 at these places, looking along z, and all food but these away in a corner."""
        world = self.world
        world.dynamics.position[:, 0] = np.array(agents, float).T
        world.dynamics.velocity[:] = 0
        world.heading[:] = 0
        world.dynamics.food[:] = -0.98 * world.dynamics.half
        for number, place in dict(foods).items():
            world.dynamics.food[:, 0, number] = place


def play_of(*agents, foods=(), **options):
    play = Play(agents=len(agents), **options)
    play.lay(*agents, foods=foods)
    return play


def test_at_full_size_everything_is_as_many_as_large_and_as_long_as_in_unity():
    play = Play()
    assert play.world.dynamics.half == 50
    wide = Play(areas=200).world.dynamics
    assert 44 < np.abs(wide.position).max() <= 45
    assert 44 < np.abs(wide.food).max() <= 45
    assert (play.batch.group_id == 0).all()
    assert len(set(play.batch.agent_id)) == 5


@pytest.mark.parametrize(("food", "worth"), [(0, 1), (24, 1), (25, -1), (49, -1)])
def test_food_rewards_or_costs_the_agent_that_touches_it_and_moves_elsewhere(food, worth):
    play = play_of((0, 0), (30, 30), foods={food: (0.4, 1.2)})
    batch = play.act()
    np.testing.assert_array_equal(batch.reward, [worth, 0])
    assert np.abs(play.world.dynamics.food[:, 0, food] - (0.4, 1.2)).max() > 2
    assert np.abs(play.world.dynamics.food).max() <= 0.98 * 50
    np.testing.assert_array_equal(play.act().reward, 0)


def test_actions_push_forward_right_and_turn_left():
    play = play_of((0, 0), (20, 0), (-20, 0), (-40, 0))
    play.act([(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, -7)])
    x, z = play.world.dynamics.position[:, 0] - np.array([[0, 20, -20, -40], [0, 0, 0, 0]])
    assert z[0] > 0.3 and abs(x[0]) < 1e-9
    assert x[1] > 0.3 and abs(z[1]) < 1e-9
    np.testing.assert_allclose(np.degrees(play.world.heading[0]), [0, 0, -30, 30])


def test_above_five_meters_a_second_agents_are_slowed():
    play = play_of((0, 0), (20, 0))
    play.world.dynamics.velocity[1, 0] = 4, 10
    play.world._act()
    np.testing.assert_allclose(
        play.world.dynamics.velocity[1, 0], [4 * 0.99 - GRIP, 10 * 0.95 * 0.99 - GRIP], rtol=1e-6
    )


def test_shooting_halves_the_push_and_takes_a_quarter_of_the_velocity():
    play = play_of((0, 0))
    world = play.world
    world._move[0], world._shoot[:] = 1, True
    world._act()
    assert world.dynamics.velocity[1, 0, 0] == pytest.approx(1 * 0.99 - GRIP)
    world.dynamics.velocity[1, 0, 0] = 4
    world._act()
    assert world.dynamics.velocity[1, 0, 0] == pytest.approx((4 * 0.75 + 1) * 0.99 - GRIP)


def test_a_shot_freezes_the_first_agent_ahead_for_four_seconds():
    play = play_of((0, 0), (1, 15), (0, 24), (0, -10), (0, 40))
    play.act(shoot=[1, 0, 0, 0, 0])
    np.testing.assert_array_equal(play.world.frozen[0] > 0, [False, True, False, False, False])
    place = play.world.dynamics.position[:, 0, 1].copy()
    for _ in range(39):
        play.act((1, 0, 1))
    np.testing.assert_allclose(play.world.dynamics.position[:, 0, 1], place, atol=1e-6)
    assert play.world.heading[0, 1] == 0
    for _ in range(2):
        play.act((1, 0, 1))
    assert np.hypot(*(play.world.dynamics.position[:, 0, 1] - place)) > 0.01
    assert play.world.heading[0, 1] != 0


@pytest.mark.parametrize(
    ("away", "foods", "hit"), [(15, {3: (1, 8)}, False), (28, {}, False), (26, {}, True)]
)
def test_a_shot_ends_at_food_and_after_25_meters(away, foods, hit):
    play = play_of((0, 0), (0, away), foods=foods)
    play.act(shoot=[1, 0])
    assert play.world.frozen.any() == play.world.frozen[0, 1].any() == hit


def test_a_frozen_agent_neither_shoots_nor_is_frozen_for_longer():
    play = play_of((0, 0), (0, 15))
    play.world.heading[0, 1] = np.pi
    play.world.frozen[0, 1] = 100
    play.act(shoot=[1, 1])
    np.testing.assert_array_equal(play.world.frozen, [[0, 95]])


def test_agents_stay_out_of_each_other_and_within_the_walls():
    play = play_of((0, 0), (0, 1.5), (49, 0))
    play.world.heading[0] = 0, np.pi, np.pi / 2
    for _ in range(10):
        play.act((1, 0, 0))
    position = play.world.dynamics.position[:, 0]
    assert np.hypot(*(position[:, 0] - position[:, 1])) > 0.95
    assert position[0, 2] == pytest.approx(49.5)


def test_the_trainer_sets_the_agents_scale_at_the_start_of_an_episode():
    play = Play(parameters={"agent_scale": 3.0, "laser_length": 2.0})
    np.testing.assert_array_equal(play.world.dynamics.radius, 1.5)
    play.lay(*[(0, 20 * k) for k in range(-2, 3)], foods={0: (0, 2.2)})
    assert play.act().reward[2] == 1
    play.parameters.set("agent_scale", 1.0)
    play.world._age[:] = 4995
    play.act()
    np.testing.assert_array_equal(play.world.dynamics.radius, 0.5)


def test_the_food_stays_where_it_is_when_the_episodes_end():
    play = Play(areas=2, max_steps=5)
    food = play.world.dynamics.food.copy()
    batch = play.act()
    np.testing.assert_array_equal(batch.done, [True] * 10 + [False] * 10)
    np.testing.assert_array_equal(batch.agent_id, [*range(10), *range(10)])
    np.testing.assert_array_equal(play.world.dynamics.food, food)


def test_the_total_score_is_reported_every_hundred_steps():
    play = play_of((0, 0), foods={0: (0, 1), 1: (1, 0), 30: (0, -1)})
    told = []
    for _ in range(40):
        play.act()
        told += play.world.statistics()
    assert [(name, value) for name, value, _ in told] == [("TotalScore", 1.0)] * 2


def test_grid_shows_everything_in_its_channel_and_turns_with_the_agent():
    play = play_of((0, 35), (3, 38), (-3, 38), foods={0: (5, 35), 30: (-5, 35)})
    play.world.frozen[0, 2] = 50
    food, agent, wall, bad, frozen = play.world._observe()[0]
    ahead = lambda image: 19.5 - np.nonzero(image)[0]  # noqa: E731
    right = lambda image: np.nonzero(image)[1] - 19.5  # noqa: E731
    for image, place in ((food, (5, 0)), (bad, (-5, 0)), (agent, (3, 3)), (frozen, (-3, 3))):
        assert 1 <= image.sum() <= 9
        assert right(image).mean() == pytest.approx(place[0], abs=0.6)
        assert ahead(image).mean() == pytest.approx(place[1], abs=0.6)
    assert ahead(wall).min() > 14
    play.world.heading[:] = np.pi / 2
    turned = play.world._observe()[0]
    assert ahead(turned[0]).mean() == pytest.approx(5, abs=0.6)
    assert right(turned[2]).max() < -14


def test_the_vector_has_what_is_nearest():
    play = play_of((0, 0), (0, 6), (0, -3), foods={0: (2, 0), 1: (0, 4), 30: (-6, 0)}, senses="vector")
    play.world.frozen[0, 2] = 9
    obs = play.world._observe()[0] * np.array([*[1] * 7, *[50] * 14, 1])
    assert obs.shape == play.world.specs()[BEHAVIOR].observation_specs[0].shape
    np.testing.assert_allclose(obs[:7], [0, 0, 0, 1, 0, 0, 0], atol=1e-5)
    np.testing.assert_allclose(obs[7:11], [2, 0, 0, 4], atol=1e-5)
    np.testing.assert_allclose(obs[13:15], [-6, 0], atol=1e-5)
    np.testing.assert_allclose(obs[19:], [0, -3, 1], atol=1e-5)


def test_an_agent_can_be_alone_with_little_food():
    play = Play(agents=1, good_food=1, bad_food=1, senses="vector")
    assert np.isfinite(play.act((1, 1, 1), shoot=1).obs[0]).all()
